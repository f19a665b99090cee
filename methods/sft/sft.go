// Package sft is PE+SFT, the ablation of POPri that trains without preferences: as POPri, but the adapters are
// fine-tuned by the next-token loss on the highest-scored samples of each round (section 5 of the paper).
package sft

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"popri/configs"
	"popri/dpo/preference"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/show/series"
	"popri/trainer"
)

// chosenFile has the samples of a round that the adapters were trained on.
const chosenFile = rundir.Chosen

// Description describes PE+SFT.
var Description = policy.Describe(method.Description{
	Method: configs.Method{Name: "private_evolution_sft"},
	Words:  method.Words{Title: "PE+SFT", About: "trains the generator on the samples that clients score highest"},
	Mixes:  true,
	New:    newMethod,
	Series: figures,
	Cost: func(c configs.Config) method.Cost {
		cost := policy.Cost(c)
		cost.Trained = int(share*float64(cost.Samples)) * c.Optimizer.Epochs * (method.PromptTokens(c) + c.Generate.MaxNewTokens)
		return cost
	},
})

var figures = series.Set{
	Columns: slices.Concat([]series.Series{
		{Key: "score/chosen", Name: "Score trained on", Format: series.Number, Decimals: 4},
		{Key: "score/mean", Name: "Score of all", Format: series.Number, Decimals: 4},
		{Key: "loss", Name: "Loss", Format: series.Number, Decimals: 4},
	}, policy.Measured, []series.Series{
		{Key: "chosen", Name: "Trained on", Format: series.Count},
	}),
	Plots: []series.Plot{
		{Title: "Score of the samples", Note: "mean noised score of the samples that are trained on, and of all",
			Lines: []series.Line{{Key: "score/chosen", Name: "trained on"}, {Key: "score/mean", Name: "all"}}},
		policy.FrechetPlot,
		policy.MedoidPlot,
		{Title: "Loss", Note: "next-token loss in nats, mean over the round's updates",
			Lines: []series.Line{{Key: "loss", Name: "loss"}}},
	},
}

// Method runs PE+SFT. A round leaves only its adapters to the next one: AdamW begins again.
type Method struct{ *policy.Policy }

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	p, err := policy.New(e)
	return &Method{p}, err
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	var texts []lm.Row
	err := m.Begin(ctx, r, "choose", func(c policy.Candidates, scores []float64) error {
		chosen, err := m.choose(r, c, scores)
		texts = examples(c, chosen)
		return err
	})
	if err != nil {
		return err
	}
	err = r.Stage("sft", func(s rounds.Stage) error { return m.tune(ctx, r, s, texts) })
	if err != nil {
		return err
	}
	return m.End(ctx, r, nil)
}

type chosenRow struct {
	Prompt int64   `parquet:"prompt_index"`
	Sample int64   `parquet:"sample_index"`
	Score  float64 `parquet:"score"`
}

// choose returns the indices of the samples to train on, the highest score first, and writes them. Empty samples and
// repeated texts are left out.
func (m *Method) choose(r *rounds.Round, c policy.Candidates, scores []float64) ([]int, error) {
	chosen := best(c, scores, share)
	if len(chosen) == 0 {
		return nil, errors.New("all samples are empty: there is none to train on")
	}
	stored := make([]chosenRow, len(chosen))
	for n, i := range chosen {
		stored[n] = chosenRow{c.Rows[i].Prompt, c.Rows[i].Sample, scores[i]}
		r.Figures.Add("score/chosen", scores[i]/float64(len(chosen)))
	}
	for _, score := range scores {
		r.Figures.Add("score/mean", score/float64(len(scores)))
	}
	r.Figures.Set("chosen", float64(len(chosen)))
	return chosen, rows.Write(filepath.Join(r.Dir, chosenFile), stored)
}

// share is the fraction of a round's samples that is trained on, those with the highest scores: as many as there are
// prompts where each has ten samples. A larger share dilutes what clients like; a smaller one is memorised.
const share = 0.1

// best returns the indices of a fraction of the samples, at least one, by descending score.
func best(c policy.Candidates, scores []float64, share float64) []int {
	order := numeric.SortedIndices(len(scores), func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	most := max(1, int(share*float64(len(scores))+0.5))
	seen := map[string]bool{}
	var out []int
	for _, i := range order {
		if row := c.Rows[i]; len(out) < most && row.Text != "" && !seen[row.Text] {
			seen[row.Text] = true
			out = append(out, i)
		}
	}
	return out
}

// examples are the chosen samples after their prompts; only the samples count in the loss.
func examples(c policy.Candidates, chosen []int) []lm.Row {
	return numeric.Map(chosen, func(i int) lm.Row { return lm.NewRow(c.Prompts[c.Rows[i].Prompt].IDs, c.Rows[i].IDs) })
}

// record is what is known of a training besides its tensors.
type record struct {
	trainer.Progress
	Loss float64 `json:"loss"` // nats a token, of the updates so far as a part of the mean of all
}

// tune fine-tunes the adapters by the next-token loss, epoch after epoch, at a constant rate. An interrupted training continues.
func (m *Method) tune(ctx context.Context, r *rounds.Round, stage rounds.Stage, examples []lm.Row) error {
	o := m.Config.Optimizer
	params, err := m.Adapter.Trainable()
	if err != nil {
		return err
	}
	m.Model.Recompute = o.GradientCheckpointing
	optimizer := trainer.NewOptimizer(params, preference.Optimizer(o))
	defer optimizer.Free()
	defer m.Model.Unpack() // what the training laid out
	longest := int64(numeric.Greatest(examples, func(e lm.Row) int { return len(e.Tokens) }))
	bytes := m.Model.Config.Activations(longest, longest, m.Model.Compute, m.Model.Recompute)
	steps, record := o.Epochs*((len(examples)+o.Batch-1)/o.Batch), record{Progress: trainer.Begun()}
	loss := &trainer.NextToken{Model: m.Model, Adapter: m.Adapter, Optimizer: optimizer,
		Rows: trainer.InMemory(examples), Parts: trainer.PassesOf(trainer.PassSize(bytes, longest, o.Batch)),
		Done: func(_ trainer.Update, loss float64) { record.Loss += loss / float64(steps) }}
	batches := &trainer.Epochs{Examples: len(examples), Size: o.Batch, Order: func(epoch int) []int {
		return rng.New(m.Config.Seed, "round", strconv.Itoa(r.Number), "sft", strconv.Itoa(epoch)).Perm(len(examples))
	}}
	loop := trainer.Loop{Optimizer: optimizer, Objective: loss, Batches: batches,
		Schedule: trainer.Constant(o.LearningRate), Updates: steps, Record: &record,
		Checkpoint: trainer.Checkpoint{Path: filepath.Join(r.Dir, policy.TrainingFile)}, OnUpdate: func(done int) error {
			stage.Progress(done, steps)
			return nil
		}}
	err = loop.Run(ctx)
	r.Figures.Set("loss", record.Loss)
	return err
}
