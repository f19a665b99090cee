package popri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"popri/configs"
	"popri/dpo"
	"popri/dpo/preference"
	"popri/dpo/trl"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/show/series"
	"popri/trainer"
)

// stepsPerRound is the number of updates of a round in which every prompt gives all its pairs.
func stepsPerRound(c configs.Config) int {
	prompts := c.Generate.Prompts
	if s := c.DPO.EvalShare; s > 0 {
		prompts -= min(max(1, int(s*float64(prompts)+0.5)), prompts-1)
	}
	return c.Optimizer.Epochs * ((prompts + c.Optimizer.Batch - 1) / c.Optimizer.Batch)
}

// restoreDPO prepares the steps of a run, with the state after a round; round 0 has none.
func (m *Method) restoreDPO(round int) error {
	steps := stepsPerRound(m.Config) * m.Config.Trainer.Rounds
	if m.dpo != nil {
		m.dpo.Optimizer.Free()
	}
	var err error
	if m.dpo, err = preference.NewDPO(m.Config, m.Model, m.Adapter, steps); err != nil {
		return err
	}
	if m.weights == "" {
		if m.weights, err = dpo.HashWeights(m.Model); err != nil {
			return err
		}
	}
	m.dpo.WeightsHash = m.weights
	if round == 0 {
		return nil
	}
	return m.dpo.Optimizer.Load(filepath.Join(rundir.Round(m.Dir, round), policy.OptimizerFile))
}

// tune does the round's DPO steps, with a checkpoint after each.
func (m *Method) tune(ctx context.Context, r *rounds.Round, stage rounds.Stage, pairs []dpo.Pair) error {
	c := m.Config
	stream := []string{"round", strconv.Itoa(r.Number)}
	defer m.Model.Unpack() // what the training laid out
	cached, err := m.dpo.ReferenceFrom(ctx, pairs, filepath.Join(r.Dir, referenceFile))
	if err != nil {
		return err
	}
	r.Log("dpo_reference", referenceEvent(cached))
	train, held := dpo.HoldOut(pairs, c.DPO.EvalShare, rng.New(c.Seed, append(stream, "held")...).Perm)
	if c.DPO.Best == "pairs" && len(held) == 0 {
		c.DPO.Best = "last"
		stage.Say("warning: the pairs are of one prompt, so none are held out to choose a step by: the last one counts")
	}
	if m.dpo.Schedule.Peak, err = m.Rate(r, margin); err != nil {
		return err
	}
	f := preference.NewFit(c, m.dpo, train, held, stream...)
	f.Checkpoint = trainer.Checkpoint{Path: filepath.Join(r.Dir, policy.TrainingFile), Key: fmt.Sprintf("round %d", r.Number)}
	if !c.CarriesMoments() {
		m.dpo.Optimizer.Reset()
	}
	if c.DPO.Best == "fid" {
		f.Judge = func(ctx context.Context) (float64, error) { return m.judge(ctx, r) }
	}
	f.OnStep = func(step dpo.Metrics, done, total int) {
		r.Log("dpo_step", step)
		stage.Progress(done, total)
	}
	f.OnEval = func(e dpo.Evaluation) { r.Log("dpo_eval", e) }
	o, err := m.fit(ctx, r, f)
	if err != nil {
		return err
	}
	m.note(r, f, o, len(held))
	if text := preference.Idle(c, o.Steps); text != "" {
		stage.Say("warning: " + text)
	}
	if len(o.Evals) > 0 {
		if err := rows.WriteLines(filepath.Join(r.Dir, preference.EvalsFile), o.Evals); err != nil {
			return err
		}
	}
	return rows.WriteLines(filepath.Join(r.Dir, preference.StepsFile), o.Steps)
}

// margin is the mean difference of the chosen and the rejected samples' scores.
func margin(r series.Round) float64 { return *r.Get(chosenKey) - *r.Get(rejectedKey) }

// fit trains here or by the engine that dpo.engine names.
func (m *Method) fit(ctx context.Context, r *rounds.Round, f *dpo.Fit) (*dpo.Outcome, error) {
	if m.Config.DPO.Engine != configs.TRL {
		return f.Run(ctx)
	}
	job := trl.Job{Config: m.Config, Fit: f, Model: m.ModelDir, Dir: filepath.Join(r.Dir, trlDir)}
	o, result, err := job.Run(ctx)
	if err == nil {
		r.Log("dpo_engine", result)
	}
	return o, err
}

// Prune implements rounds.Method: it removes what a training elsewhere was given and left.
func (m *Method) Prune(round int) error {
	if err := os.RemoveAll(filepath.Join(rundir.Round(m.Dir, round), trlDir)); err != nil {
		return err
	}
	return m.Policy.Prune(round)
}
