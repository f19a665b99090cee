package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/rng"
	"popri/lm"
)

// partSamples is about how many samples are drawn between two files: what a kill costs at most.
const partSamples = 1280

// sampling is what a batch of samples needs.
type sampling struct {
	prompts     []Prompt
	samples     int // of each prompt
	temperature float64
	topP        float64
	maxNew      int
	seed        uint64
	label       string // which model wrote them, for the stored rows
}

// sample draws the samples of prompts part by part into dir, and joins the parts in final. A final that is there is read
// back, and so are parts that are there.
func (t *Trainer) sample(ctx context.Context, m *lm.Model, p sampling, dir, final string, stage Stage) ([]SampleRow, error) {
	if exists(final) {
		return readRows[SampleRow](final)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var all []SampleRow
	total := len(p.prompts) * p.samples
	partPrompts := max(1, partSamples/p.samples)
	for from := 0; from < len(p.prompts); from += partPrompts {
		to := min(from+partPrompts, len(p.prompts))
		path := filepath.Join(dir, fmt.Sprintf("part-%05d.parquet", from/partPrompts))
		rows, err := readRows[SampleRow](path)
		if err != nil || len(rows) != (to-from)*p.samples {
			if rows, err = t.draw(ctx, m, p, from, to, func(done, _ int) {
				if t.Events.Progress != nil {
					t.Events.Progress(stage, len(all)+done, total)
				}
			}); err != nil {
				return nil, err
			}
			if err := writeRows(path, rows); err != nil {
				return nil, err
			}
		}
		all = append(all, rows...)
	}
	if err := writeRows(final, all); err != nil {
		return nil, err
	}
	return all, os.RemoveAll(dir)
}

// draw draws the samples of the prompts from one index to before another.
func (t *Trainer) draw(ctx context.Context, m *lm.Model, p sampling, from, to int, progress func(done, total int)) ([]SampleRow, error) {
	g := t.Config.Generate
	ids := make([][]int32, to-from)
	for i := range ids {
		ids[i] = p.prompts[from+i].IDs
	}
	out, err := m.Generate(ctx, ids, p.samples, lm.SampleOptions{
		Temperature: p.temperature, TopP: p.topP, TopK: g.TopK, MaxNewTokens: p.maxNew, MinNewTokens: min(g.MinNewTokens, p.maxNew),
		StopTokens: t.prompter.stopTokens(), Stop: t.prompter.stop(), Seed: rng.Seed(p.seed, fmt.Sprint(from)),
		CacheBytes: t.cacheBytes(m), Progress: progress})
	if err != nil {
		return nil, err
	}
	var rows []SampleRow
	for i := range out {
		for j, s := range out[i] {
			text, completion := t.prompter.Read(s.IDs, s.Finish == "stop")
			rows = append(rows, SampleRow{Prompt: int64(from + i), Sample: int64(j), Text: text, Finish: s.Finish, IDs: completion, Model: p.label})
		}
	}
	return rows, nil
}

// cacheBytes turns generate.batch_tokens into the memory that so many tokens' keys and values take.
func (t *Trainer) cacheBytes(m *lm.Model) int64 {
	return int64(t.Config.Generate.BatchTokens) * int64(m.Config.Layers) * 2 * int64(m.Config.KVHeads*m.Config.HeadDim()*m.Compute.Size())
}
