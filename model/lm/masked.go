package lm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/internal/rng"
	"popri/model/tensor"
)

// LoadMasked reads an encoder that predicts masked tokens, every token seeing all of its row, as transformers'
// BertForMaskedLM and RobertaForMaskedLM do. [Model.Fill] draws the tokens.
func LoadMasked(dir string, o Options) (*Model, error) {
	config, err := readAnyConfig(dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(maskedFamilies, config.Type) {
		return nil, quote.Errorf("lm: %s: model_type %q does not fill masked tokens (%s)", dir, config.Type,
			strings.Join(maskedFamilies, ", "))
	}
	config.Masked = true
	return load(dir, config, o, nil)
}

// maskedFamilies are the values of model_type that [LoadMasked] reads.
var maskedFamilies = []string{"bert", "roberta"}

// FillOptions say how masked tokens are drawn. The zero value takes the likeliest.
type FillOptions struct {
	Mask        int32   // the token that stands for what is masked
	Banned      []int32 // tokens that are not drawn
	Temperature float64 // softmax temperature; 0 takes the likeliest token
	TopP        float64 // keep the likeliest tokens whose probability reaches this; 0 or 1 keeps all
	TopK        int     // keep this many likeliest tokens; 0 keeps all
	// Seed, the index of a row and the index of a token in it determine the random numbers, whatever the batch is.
	Seed uint64
}

// fillTokens bounds the padded tokens of one pass.
const fillTokens = 4096

// Fill masks the tokens of rows at the given indices and draws them again, all of a row at once and independently of each
// other: one pass a row. It returns new rows of the same lengths. Rows are whole inputs, with the tokens that begin and
// end a text.
func (m *Model) Fill(ctx context.Context, rows [][]int32, masked [][]int, o FillOptions) ([][]int32, error) {
	if !m.Config.Masked {
		return nil, fmt.Errorf("lm: a model of type %s does not fill masked tokens", m.Config.Type)
	}
	if len(masked) != len(rows) {
		return nil, fmt.Errorf("lm: masks for %d rows of %d", len(masked), len(rows))
	}
	if !(o.Temperature >= 0) || math.IsInf(o.Temperature, 1) || !(o.TopP >= 0 && o.TopP <= 1) || o.TopK < 0 {
		return nil, fmt.Errorf("lm: temperature %g, top_p %g, top_k %d: out of range", o.Temperature, o.TopP, o.TopK)
	}
	for _, id := range append([]int32{o.Mask}, o.Banned...) {
		if err := m.CheckTokens([]int32{id}); err != nil {
			return nil, err
		}
	}
	out := make([][]int32, len(rows))
	for i, row := range rows {
		if err := m.CheckTokens(row); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		out[i] = slices.Clone(row)
		for _, at := range masked[i] {
			if at < 0 || at >= len(row) {
				return nil, fmt.Errorf("lm: row %d has no token %d to mask", i, at)
			}
			out[i][at] = o.Mask
		}
	}
	batches := numeric.ByLength(len(rows), func(i int) int { return len(rows[i]) }, // whatever the number of threads is
		func(count, longest, _ int) bool { return count*longest <= fillTokens })
	err := tensor.Parallel(len(batches), func(i int, s *tensor.Scope) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.NoGrad(func() { err = m.fill(s, out, masked, batches[i], o) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fill draws the masked tokens of the rows with the given indices, in place.
func (m *Model) fill(s *tensor.Scope, all [][]int32, masked [][]int, which []int, o FillOptions) error {
	var rows []Row
	var ids [][]int32
	for _, i := range which {
		rows, ids = append(rows, Row{Tokens: all[i]}), append(ids, all[i])
	}
	in := wholeRows(s, rows, PaddedInput(s, ids, m.Config.Context))
	width := int(in.IDs.Size(1))
	type token struct{ row, at int }
	var tokens []token
	var flat []int64
	var u []float64
	for k, i := range which {
		seed := rng.Seed(o.Seed, fmt.Sprint(i))
		for _, at := range masked[i] {
			tokens, flat = append(tokens, token{i, at}), append(flat, int64(k*width+at))
			draw := -1.0
			if o.Temperature > 0 {
				draw = uniform(seed, at)
			}
			u = append(u, draw)
		}
	}
	if len(flat) == 0 {
		return nil
	}
	hidden := s.Reshape(m.Hidden(s, in, nil), -1, int64(m.Config.Hidden))
	sampler := tensor.Sampler{Temperature: o.Temperature, TopP: o.TopP, TopK: o.TopK, Banned: o.Banned}
	for from := 0; from < len(flat); from += vocabRows {
		to := min(from+vocabRows, len(flat))
		var drawn []int32
		s.Do(func() {
			h := s.IndexSelect(hidden, 0, s.FromInt64(flat[from:to], int64(to-from)))
			drawn = m.draw(s, h, &sampler, u[from:to], slices.Repeat([]bool{true}, to-from))
		})
		for j, id := range drawn {
			p := tokens[from+j]
			if id < 0 {
				return fmt.Errorf("lm: row %d, token %d: the model's logits are not finite", p.row, p.at)
			}
			all[p.row][p.at] = id
		}
	}
	return nil
}
