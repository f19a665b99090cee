package lm

import (
	"fmt"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Evaluate returns the mean negative log-likelihood of the counted tokens (nats) and the fraction of them that are the
// likeliest token. Batches have at most the given number of padded tokens; after each, done, if not nil, is told how
// many tokens its rows have, and its error ends the evaluation.
func (m *Model) Evaluate(s *tensor.Scope, rows []Row, adapter Adapter, batchTokens int, done func(tokens int) error) (loss,
	accuracy float64, err error) {
	each, err := m.EvaluateRows(s, rows, adapter, batchTokens, done)
	if err != nil {
		return 0, 0, err
	}
	return Mean(each)
}

// Mean is the mean loss of the counted tokens of rows (nats), and the fraction of them that are the likeliest token.
func Mean(each []RowScore) (loss, accuracy float64, err error) {
	tokens, correct := 0, 0
	for _, r := range each {
		loss += r.Loss
		correct += r.Correct
		tokens += r.Tokens
	}
	if tokens == 0 {
		return 0, 0, fmt.Errorf("lm: nothing to evaluate: the rows hold no counted token")
	}
	return loss / float64(tokens), float64(correct) / float64(tokens), nil
}

// Tokens is the number of tokens of rows.
func Tokens(rows []Row) int { return numeric.Sum(rows, func(r Row) int { return len(r.Tokens) }) }

// RowScore is the evaluation of one row.
type RowScore struct {
	Loss            float64 // summed negative log-likelihood, nats
	Tokens, Correct int
	Top3, Top5      int   // tokens among the three and the five likeliest ones
	Best            int32 // of a classifier: the likeliest label
}

// AddRank counts a token of which this many are likelier.
func (r *RowScore) AddRank(rank int) {
	r.Tokens++
	switch {
	case rank == 0:
		r.Correct++
		fallthrough
	case rank < 3:
		r.Top3++
		fallthrough
	case rank < 5:
		r.Top5++
	}
}

// batches calls f with the rows in turn, as many at once as have the given padded tokens, and where they begin.
func batches(s *tensor.Scope, rows []Row, tokens int, f func(from int, batch []Row)) {
	for from := 0; from < len(rows); {
		to, width := from, 1
		for to < len(rows) {
			w := max(width, len(rows[to].Tokens))
			if to > from && w*(to-from+1) > tokens {
				break
			}
			width, to = w, to+1
		}
		s.Do(func() { f(from, rows[from:to]) })
		from = to
	}
}

// EvaluateRows scores each row by itself; see [Model.Evaluate].
func (m *Model) EvaluateRows(s *tensor.Scope, rows []Row, adapter Adapter, batchTokens int,
	done func(tokens int) error) ([]RowScore, error) {
	out := make([]RowScore, len(rows))
	var ended error
	batches(s, rows, batchTokens, func(from int, batch []Row) {
		if ended != nil {
			return
		}
		sc := m.Score(s, batch, adapter, true)
		for i, lp := range sc.LogProbs {
			r := &out[from+sc.Row[i]]
			r.Loss -= float64(lp)
			if len(sc.Best) > 0 {
				r.Best = sc.Best[i]
			}
			r.AddRank(int(sc.Rank[i]))
		}
		if done != nil {
			ended = done(Tokens(batch))
		}
	})
	if ended != nil {
		return nil, ended
	}
	for i, r := range out {
		if !numeric.Finite(r.Loss) {
			return nil, fmt.Errorf("lm: row %d has the loss %g", i, r.Loss)
		}
	}
	return out, nil
}

// Distributions calls f with the logits over the vocabulary before each counted token of each row; the slice is used
// again. token is the index of the counted token in its row, whose tokens all count but the first.
func (m *Model) Distributions(s *tensor.Scope, rows []Row, batchTokens int, f func(row, token int, logits []float32)) {
	batches(s, rows, batchTokens, func(from int, batch []Row) {
		sc := m.unscored(s, batch, nil, dropout{})
		row, token := -1, 0
		sc.chunks(s, func(c *chunk) {
			width := int(c.logits.Size(1))
			flat := s.Float32s(c.logits)
			for i := c.from; i < min(c.to, len(sc.Row)); i++ {
				if sc.Row[i] != row {
					row, token = sc.Row[i], 1
				}
				f(from+row, token, flat[(i-c.from)*width:][:width])
				token++
			}
		})
	})
}
