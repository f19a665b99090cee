// Package policy is a language model with LoRA adapters that learns from clients' scores: the common part of the
// methods that tune one. It writes candidates, asks how similar they are to the clients' texts, reads the noised
// answer, and writes the synthetic set. The method decides what the adapters learn from the scores.
package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"popri/dpo/preference"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/model/embedding"
	"popri/scoring"
	"popri/trainer"
)

// Files of a round.
const (
	PromptsFile = rundir.Prompts
	ScoresFile  = rundir.Scores
	// AdamW's moments after the round, of a method that keeps them.
	OptimizerFile = "optimizer.safetensors"
	// The state after the last update, of a round that is not done.
	TrainingFile = "training.safetensors"
)

// Policy is the model with its adapters.
type Policy struct {
	method.Env
	Adapter  *lora.Adapter
	Feedback Feedback

	round int // of the adapters
}

// New makes a policy that clients give the configured feedback, if public text is fit for it.
func New(e method.Env) (*Policy, error) {
	own := *e.Prompter // the release decides on line breaks, which the untuned model's text must not show
	e.Prompter = &own
	p := &Policy{Env: e}
	p.Feedback = newFeedback(p)
	if _, once := p.Feedback.(*Single); once {
		return p, target.Check(e)
	}
	return p, nil
}

// single is the feedback of clients who are asked once. Settings that need it are refused where they are not
// (scoring.release).
func (p *Policy) single() (*Single, error) {
	if f, ok := p.Feedback.(*Single); ok {
		return f, nil
	}
	return nil, fmt.Errorf("policy: scoring.release is %q, so nothing is known of public texts' relevance",
		p.Config.Scoring.Release)
}

// Candidates are the samples of a round.
type Candidates struct {
	Prompts []sampling.Prompt
	Rows    []sampling.Row // K·J, the samples of a prompt in succession
	Vectors embedding.Matrix
}

// Texts are the samples' texts, empty ones included.
func (c Candidates) Texts() []string {
	return numeric.Map(c.Rows, func(r sampling.Row) string { return r.Text })
}

// ScoreRow is a sample's score as stored.
type ScoreRow struct {
	Prompt int64   `parquet:"prompt_index"`
	Sample int64   `parquet:"sample_index"`
	Noisy  float64 `parquet:"noisy_mean"` // the released sum over the number of clients
	Score  float64 `parquet:"score"`      // after post-processing
	Tokens int64   `parquet:"tokens"`
}

// Restore sets the adapters to their state after a complete round; 0 is the beginning.
func (p *Policy) Restore(round int) (err error) {
	p.Close()
	if round == 0 {
		p.Adapter, err = lora.New(p.Model, preference.Adapter(p.Config.LoRA, p.ModelDir), rng.New(p.Config.Seed, "lora"))
	} else {
		p.Adapter, err = lora.Load(filepath.Join(rundir.Round(p.Dir, round), rundir.Adapter), p.Model)
	}
	p.round = round
	return err
}

// Close releases the adapters.
func (p *Policy) Close() {
	if p.Adapter != nil {
		p.Adapter.Free()
		p.Adapter = nil
	}
}

// Begin does what the rounds of all methods begin with: it writes candidates, asks for the clients' answer about them,
// and gives use the candidates and their scores, in a stage of that name.
func (p *Policy) Begin(ctx context.Context, r *rounds.Round, stage string,
	use func(c Candidates, scores []float64) error) error {
	if err := p.Feedback.Begin(ctx, r); err != nil {
		return err
	}
	c, err := p.generate(ctx, r)
	if err != nil {
		return err
	}
	answer, err := p.Feedback.Ask(r, c)
	if err != nil {
		return err
	}
	return r.Stage(stage, func(rounds.Stage) error {
		scores, err := p.Scores(r, c, answer)
		if err != nil {
			return err
		}
		return use(c, scores)
	})
}

// generate writes the round's candidates and embeds them.
func (p *Policy) generate(ctx context.Context, r *rounds.Round) (c Candidates, err error) {
	err = r.Stage("generate", func(s rounds.Stage) error {
		if c.Prompts, err = p.prompts(r.Number); err != nil {
			return err
		}
		if err := rows.Write(filepath.Join(r.Dir, PromptsFile), sampling.PromptRows(c.Prompts)); err != nil {
			return err
		}
		c.Rows, err = p.sample(ctx, s, p.Adapter, r.Number, c.Prompts, filepath.Join(r.Dir, rundir.Samples))
		return err
	})
	if err != nil {
		return c, err
	}
	if want := len(c.Prompts) * p.Config.Generate.Samples; len(c.Rows) != want {
		return c, fmt.Errorf("round %d: %s holds %d samples, the configuration makes %d", r.Number,
			filepath.Join(r.Dir, rundir.Samples), len(c.Rows), want)
	}
	for _, row := range c.Rows {
		r.Figures.Add("mean_tokens", float64(len(row.IDs))/float64(len(c.Rows)))
	}
	r.Figures.Set("samples", float64(len(c.Rows)))
	err = r.Stage("embed", func(s rounds.Stage) error {
		if c.Vectors, err = embedding.InParts(ctx, p.Encoder, c.Texts(), s.Progress); err != nil {
			return err
		}
		if err := p.NoteDistance(r, rounds.FID, c.Vectors); err != nil {
			return err
		}
		view, err := p.View(c.Vectors)
		if err != nil || view == nil {
			return err
		}
		r.Figures.Set("medoid", view.Medoid)
		return atomicfile.WriteJSON(filepath.Join(r.Dir, rundir.View), view)
	})
	return c, err
}

// prompts draws the prompts of a round.
func (p *Policy) prompts(round int) ([]sampling.Prompt, error) {
	prompter, err := p.quoting(p.Config.Generate.Quote, round-1)
	if err != nil {
		return nil, err
	}
	return p.drawFor(prompter, round)
}

// drawFor draws the prompts of a round from a prompter.
func (p *Policy) drawFor(prompter *sampling.Prompter, round int) ([]sampling.Prompt, error) {
	return prompter.Draw(rng.New(p.Config.Seed, "round", strconv.Itoa(round), "prompts"), p.Config.Generate.Prompts)
}

// sample writes the samples of a round to file, in parts that survive a kill; without an adapter, the model's own.
func (p *Policy) sample(ctx context.Context, s rounds.Stage, a *lora.Adapter, round int, prompts []sampling.Prompt,
	file string) ([]sampling.Row, error) {
	n := strconv.Itoa(round)
	batch := p.Writer.Batch(p.Prompter, prompts, p.Config.Generate.Samples,
		rng.Seed(p.Config.Seed, "round", n, "generate"), "before round "+n)
	return p.written(ctx, s, a, batch, file)
}

// written writes the samples of a batch to file.
func (p *Policy) written(ctx context.Context, s rounds.Stage, a *lora.Adapter, batch sampling.Batch,
	file string) (written []sampling.Row, err error) {
	err = p.WithSampler(a, func(model sampling.Sampler) error {
		written, err = p.Writer.Sample(ctx, model, batch, file, s.Progress)
		return err
	})
	return written, err
}

// Scores reads the clients' answer about candidates: scores by the configured objective, corrected for the samples'
// lengths. They are written to scores.parquet.
func (p *Policy) Scores(r *rounds.Round, c Candidates, answer Answer) ([]float64, error) {
	noisy, scores, err := answer.Scores(r)
	if err != nil {
		return nil, err
	}
	scores, slope, err := p.corrected(c.Rows, scores)
	if err != nil {
		return nil, err
	}
	if p.Config.Scoring.LengthRegression {
		r.Figures.Set("length_slope", slope)
	}
	scored := make([]ScoreRow, len(c.Rows))
	for i, row := range c.Rows {
		scored[i] = ScoreRow{row.Prompt, row.Sample, noisy[i], scores[i], int64(len(row.IDs))}
	}
	return scores, rows.Write(filepath.Join(r.Dir, ScoresFile), scored)
}

// corrected returns scores corrected for the samples' lengths if scoring.length_regression says so, and the slope.
func (p *Policy) corrected(samples []sampling.Row, scores []float64) (_ []float64, slope float64, err error) {
	if !p.Config.Scoring.LengthRegression {
		return scores, 0, nil
	}
	lengths := numeric.Map(samples, func(row sampling.Row) int { return len(row.IDs) })
	return scoring.LengthRegression(scores, scoring.LogLengths(lengths), p.Config.Generate.Samples)
}

// save writes the adapters of a round, and the moments of their optimizer unless it is nil.
func (p *Policy) save(r *rounds.Round, optimizer *trainer.Optimizer) error {
	if err := p.Adapter.Save(filepath.Join(r.Dir, rundir.Adapter)); err != nil || optimizer == nil {
		return err
	}
	return optimizer.Save(filepath.Join(r.Dir, OptimizerFile))
}

// Prune implements rounds.Method: it removes the state of a training that is done.
func (p *Policy) Prune(round int) error {
	return os.RemoveAll(filepath.Join(rundir.Round(p.Dir, round), TrainingFile))
}
