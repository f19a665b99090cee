package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"popri/datasets"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/lm"
	"popri/lora"
	"popri/methods/target"
	"popri/preference"
	"popri/trainer"
)

// In the folder of round 1: the adapters after the warm-up, and its mean loss. The adapters are written last.
const (
	warmupDir  = "warmup"
	warmupFile = "warmup.parquet"
)

type warmupRow struct {
	Loss float64 `parquet:"loss"` // nats a token
}

// FineTuning says how adapters are trained on texts by the next-token loss.
type FineTuning struct {
	Steps, Batch int
	LearningRate float64  // constant
	Stream       []string // of the order of the rows
}

// fineTuneParts is the number of parts of a batch that are computed in parallel.
const fineTuneParts = 2

// FineTune trains the adapters on rows, epoch after epoch, and returns the mean loss in nats a token over all steps. The
// section optimizer has AdamW's other settings. FineTune keeps no state on disk.
func (p *Policy) FineTune(ctx context.Context, stage trainer.Stage, examples []lm.Row, f FineTuning) (float64, error) {
	o := p.Config.Optimizer
	params, err := p.Adapter.Trainable()
	if err != nil {
		return 0, err
	}
	p.Model.Recompute = o.GradientCheckpointing
	optimizer := lm.NewOptimizer(params, preference.Optimizer(o))
	defer optimizer.Free()
	each := (len(examples) + f.Batch - 1) / f.Batch
	mean := 0.0
	var order []int
	for step := range f.Steps {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if step%each == 0 {
			order = rng.New(p.Config.Seed, append(f.Stream, strconv.Itoa(step/each))...).Perm(len(examples))
		}
		var batch []lm.Row
		for _, i := range order[step%each*f.Batch : min((step%each+1)*f.Batch, len(order))] {
			batch = append(batch, examples[i])
		}
		loss, _, err := optimizer.StepParts(p.Model, p.Adapter, batch, min(fineTuneParts, len(batch)), f.LearningRate)
		if err != nil {
			return 0, err
		}
		mean += loss / float64(f.Steps)
		stage.Progress(step+1, f.Steps)
	}
	return mean, nil
}

// warmUp trains the adapters on the selected public texts, each behind a prompt that quotes others, before the first
// candidates are written. For privacy.unsafe_ceiling, the texts are the clients' own.
func (p *Policy) warmUp(ctx context.Context, r *trainer.Round, stage trainer.Stage) error {
	dir := filepath.Join(r.Dir, warmupDir)
	if _, err := os.Stat(filepath.Join(dir, lora.ConfigFile)); err == nil { // by a process that was interrupted later in the round
		losses, err := rows.Read[warmupRow](filepath.Join(r.Dir, warmupFile))
		if err != nil {
			return err
		}
		r.Figures.Set("warmup_loss", losses[0].Loss)
		return p.Adapter.Read(dir, p.Model)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	prompter, err := p.quoting("relevant", 0)
	if err != nil {
		return err
	}
	random := rng.New(p.Config.Seed, "warmup", "prompts")
	texts := target.Texts(p.selected)
	if p.Ceiling != nil {
		texts = nil
		for _, t := range p.Ceiling {
			texts = append(texts, datasets.Text{Text: t})
		}
	}
	if texts = prompter.Fitting(texts); len(texts) == 0 {
		return fmt.Errorf("no text to warm up on has at most %d tokens (data.max_tokens)", p.Config.Data.MaxTokens)
	}
	prompts, err := prompter.DrawFor(random, datasets.Labels(texts), len(texts))
	if err != nil {
		return err
	}
	examples := make([]lm.Row, len(texts))
	for i, text := range texts {
		examples[i] = lm.Row{Tokens: append(prompts[i].IDs, prompter.Completion(text.Text)...)}
	}
	w := p.Config.Warmup
	loss, err := p.FineTune(ctx, stage, examples, FineTuning{Steps: w.Steps, Batch: w.Batch, LearningRate: w.LearningRate,
		Stream: []string{"warmup"}})
	if err != nil {
		return err
	}
	r.Figures.Set("warmup_loss", loss)
	if err := rows.Write(filepath.Join(r.Dir, warmupFile), []warmupRow{{loss}}); err != nil {
		return err
	}
	return p.Adapter.Save(dir)
}
