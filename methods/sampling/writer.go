package sampling

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/model/lm"
)

// partSamples is about the number of samples between two files: the most that a kill costs.
const partSamples = 1280

// PartsOf is the folder for the parts of a file of samples until the file is complete.
func PartsOf(file string) string { return file + ".parts" }

// Batch describes the samples to draw.
type Batch struct {
	Prompter    *Prompter // extracts the samples' texts and detects their ends
	Prompts     []Prompt
	Samples     int // of each prompt
	Kept        int // the first of all samples, where there are more; 0 keeps all
	Temperature float64
	TopP        float64
	MaxNew      int
	Seed        uint64
	Label       string // name of the model, for the stored rows
}

// Writer draws samples as the configuration's generate section says.
type Writer struct {
	Config configs.Generate
}

// Batch is a batch of samples that are drawn as the generate section says.
func (w Writer) Batch(p *Prompter, prompts []Prompt, samples int, seed uint64, label string) Batch {
	return Batch{Prompter: p, Prompts: prompts, Samples: samples, Temperature: w.Config.Temperature,
		TopP: w.Config.TopP, MaxNew: w.Config.MaxNewTokens, Seed: seed, Label: label}
}

// Sample draws the samples of a batch part by part, see [PartsOf], and joins the parts in final. Existing parts, or an
// existing final, are read instead. The same seed gives the same samples, however often the process was killed.
func (w Writer) Sample(ctx context.Context, m Sampler, b Batch, final string,
	progress func(done, total int)) ([]Row, error) {
	parts := PartsOf(final)
	if _, err := os.Stat(final); err == nil {
		if err := os.RemoveAll(parts); err != nil { // a kill after final was written leaves them
			return nil, err
		}
		return rows.Read[Row](final)
	}
	if err := os.MkdirAll(parts, 0o755); err != nil {
		return nil, err
	}
	var all []Row
	total := len(b.Prompts) * b.Samples
	err := b.each(func(from, to int) error {
		path := filepath.Join(parts, fmt.Sprintf("part-%05d.parquet", from/b.partPrompts()))
		part, err := rows.Read[Row](path)
		if err != nil || len(part) != (to-from)*b.Samples {
			if part, err = w.draw(ctx, m, b, from, to, func(done, _ int) { progress(len(all)+done, total) }); err != nil {
				return err
			}
			if err := rows.Write(path, part); err != nil {
				return err
			}
		}
		all = append(all, part...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if b.Kept > 0 {
		all = all[:min(b.Kept, len(all))]
	}
	if err := rows.Write(final, all); err != nil {
		return nil, err
	}
	return all, os.RemoveAll(parts)
}

// Draw draws the samples of a batch and stores nothing on disk.
func (w Writer) Draw(ctx context.Context, m Sampler, b Batch) ([]Row, error) {
	var all []Row
	err := b.each(func(from, to int) error {
		part, err := w.draw(ctx, m, b, from, to, nil)
		all = append(all, part...)
		return err
	})
	return all, err
}

// partPrompts is the number of prompts of a part.
func (b Batch) partPrompts() int { return max(1, partSamples/b.Samples) }

func (b Batch) each(do func(from, to int) error) error {
	for from := 0; from < len(b.Prompts); from += b.partPrompts() {
		if err := do(from, min(from+b.partPrompts(), len(b.Prompts))); err != nil {
			return err
		}
	}
	return nil
}

// draw draws the samples of the prompts from index from to before index to.
func (w Writer) draw(ctx context.Context, m Sampler, b Batch, from, to int, progress func(done, total int)) ([]Row, error) {
	ids := numeric.Map(b.Prompts[from:to], func(p Prompt) []int32 { return p.IDs })
	out, err := m.Generate(ctx, ids, b.Samples, lm.SampleOptions{
		Temperature: b.Temperature, TopP: b.TopP, MaxNewTokens: b.MaxNew,
		MinNewTokens: min(w.Config.MinNewTokens,
			b.MaxNew), StopTokens: b.Prompter.stopTokens(), Stop: b.Prompter.stop(),
		HeldTokens: b.Prompter.Held(), Seed: rng.Seed(b.Seed,
			fmt.Sprint(from)), CacheBytes: w.cacheBytes(m), Progress: progress})
	if err != nil {
		return nil, err
	}
	var drawn []Row
	for i := range out {
		for j, s := range out[i] {
			ids := slices.Concat(b.Prompts[from+i].Begun, s.IDs)
			text, completion := b.Prompter.Read(ids, s.Finish == "stop")
			drawn = append(drawn, Row{Prompt: int64(from + i), Sample: int64(j), Text: text, Finish: s.Finish,
				IDs: completion, Model: b.Label, Label: b.Prompts[from+i].Label, Kind: b.Prompts[from+i].Kind})
		}
	}
	return drawn, nil
}

// cacheBytes converts generate.batch_tokens into the memory of the keys and values of that many tokens. A sampler
// elsewhere has a memory of its own.
func (w Writer) cacheBytes(s Sampler) int64 {
	m, ok := s.(*lm.Model)
	if !ok {
		return 0
	}
	perToken := m.Config.Layers * 2 * m.Config.KVHeads * m.Config.HeadDim() * m.Compute.Size()
	return int64(w.Config.BatchTokens) * int64(perToken)
}

// Set writes a synthetic set as the configuration's synthetic section says: prompts of the prompter, and the model's
// answers, to file, of which the last prompt has fewer where synthetic.texts is no multiple of synthetic.samples. The seed
// is the run's.
func (w Writer) Set(ctx context.Context, m Sampler, p *Prompter, c configs.Synthetic, seed uint64,
	label, file string, progress func(done, total int)) ([]Row, error) {
	each := max(1, c.Samples)
	prompts, err := p.Draw(rng.New(seed, "synthetic", "prompts"), (c.Texts+each-1)/each)
	if err != nil {
		return nil, err
	}
	b := w.Batch(p, prompts, each, rng.Seed(seed, "synthetic", "generate"), label)
	b.Temperature, b.TopP, b.Kept = c.Temperature, 1, c.Texts
	return w.Sample(ctx, m, b, file, progress)
}
