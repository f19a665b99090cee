package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"popri/configs"
	"popri/datasets"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/lora"
	"popri/methods/rounds"
	"popri/methods/target"
	"popri/model/lm"
)

// In the folder of round 1: the adapters after the warm-up, and its mean loss. The adapters are written last.
const (
	warmupDir  = "warmup"
	warmupFile = "warmup.parquet"
)

type warmupRow struct {
	Loss float64 `parquet:"loss"` // nats a token
}

// warmUp trains the adapters on the selected public texts, each behind a prompt that quotes others, before the first
// candidates are written. For privacy.unsafe_ceiling, the texts are the clients' own.
func (p *Policy) warmUp(ctx context.Context, r *rounds.Round, stage rounds.Stage) error {
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
	single, err := p.single()
	if err != nil {
		return err
	}
	texts := target.Texts(single.selected)
	if p.Given.Ceiling != nil {
		texts = nil
		for _, t := range p.Given.Ceiling.Unprotected() {
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
	loss, err := p.FineTune(ctx, stage, examples, FineTuning{Steps: p.Config.Warmup.Steps, Batch: configs.WarmupBatch,
		LearningRate: p.Config.Optimizer.LearningRate, Stream: []string{"warmup"}})
	if err != nil {
		return err
	}
	r.Figures.Set("warmup_loss", loss)
	if err := rows.Write(filepath.Join(r.Dir, warmupFile), []warmupRow{{loss}}); err != nil {
		return err
	}
	return p.Adapter.Save(dir)
}
