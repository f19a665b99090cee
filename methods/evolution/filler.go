package evolution

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"popri/internal/rng"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
)

// masked is an encoder that fills masked tokens (private_evolution.masked_model), as PrE-Text's does.
type masked struct {
	model     *lm.Model
	tokenizer *tokenizer.Tokenizer
	mask      int32
	special   []int32 // tokens that no text holds
}

// openMasked reads such a model from a folder.
func openMasked(dir string, compute tensor.DType) (*masked, error) {
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, err
	}
	m := &masked{tokenizer: tok}
	found := false
	for _, name := range []string{"[MASK]", "<mask>"} {
		if id, ok := tok.ID(name); ok && !found {
			m.mask, found = id, true
		}
	}
	if !found {
		return nil, fmt.Errorf("evolution: %s: the tokenizer has no token [MASK] or <mask>", dir)
	}
	if m.model, err = lm.LoadMasked(dir, lm.Options{Weights: compute, Compute: compute}); err != nil {
		return nil, err
	}
	if err := m.model.CheckVocabulary(tok.VocabSize()); err != nil {
		m.close()
		return nil, fmt.Errorf("evolution: %s: %w", dir, err)
	}
	for id := range int32(m.model.Config.Vocab) {
		if int(id) >= tok.VocabSize() || tok.IsSpecial(id) {
			m.special = append(m.special, id)
		}
	}
	return m, nil
}

func (m *masked) close() {
	if m != nil && m.model != nil {
		m.model.Free()
	}
}

// filling draws variations of texts by masked filling: a [sampling.Sampler] whose prompts are the texts in the
// generator's tokens.
type filling struct {
	*masked
	generator *tokenizer.Tokenizer
	share     float64 // of the tokens that are masked in a pass; at least one is
	passes    int
}

// positions draws which of n tokens are masked in a pass.
func (f filling) positions(n int, random *rand.Rand) []int {
	return random.Perm(n)[:min(n, max(1, int(f.share*float64(n)+0.5)))]
}

// Generate implements sampling.Sampler. A text that is longer than the masked model's context keeps its end.
func (f filling) Generate(ctx context.Context, prompts [][]int32, samples int, o lm.SampleOptions) ([][]lm.Sample, error) {
	if samples != 1 {
		return nil, fmt.Errorf("evolution: %d samples of a text to fill, want 1", samples)
	}
	prefix, suffix := f.tokenizer.Template()
	room := f.model.Config.Context - len(prefix) - len(suffix)
	if room < 1 {
		return nil, fmt.Errorf("evolution: the masked model has a context of %d tokens", f.model.Config.Context)
	}
	rows, rest := make([][]int32, len(prompts)), make([][]int32, len(prompts))
	for i, p := range prompts {
		ids := f.tokenizer.Encode(f.generator.Decode(p, true))
		n := min(room, len(ids))
		rows[i], rest[i] = slices.Concat(prefix, ids[:n], suffix), ids[n:]
	}
	for pass := range f.passes {
		name := fmt.Sprint(pass)
		positions := make([][]int, len(rows))
		for i, row := range rows {
			random := rng.New(o.Seed, "mask", name, fmt.Sprint(i))
			positions[i] = f.positions(len(row)-len(prefix)-len(suffix), random)
			for k := range positions[i] {
				positions[i][k] += len(prefix)
			}
		}
		var err error
		rows, err = f.model.Fill(ctx, rows, positions, lm.FillOptions{Mask: f.mask, Banned: f.special,
			Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, Seed: rng.Seed(o.Seed, "fill", name)})
		if err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(len(rows)*(pass+1)/f.passes, len(rows))
		}
	}
	out := make([][]lm.Sample, len(rows))
	for i, row := range rows {
		ids := append(row[len(prefix):len(row)-len(suffix)], rest[i]...)
		out[i] = []lm.Sample{{IDs: f.generator.Encode(f.tokenizer.Decode(ids, true)), Finish: "stop"}}
	}
	return out, nil
}

var _ sampling.Sampler = filling{}
