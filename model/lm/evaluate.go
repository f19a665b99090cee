package lm

import (
	"fmt"
	"math"

	"popri/model/tensor"
)

// Evaluate returns the mean negative log-likelihood of the counted tokens (nats) and the fraction of them that are the
// likeliest token. Batches have at most the given number of padded tokens.
func (m *Model) Evaluate(s *tensor.Scope, rows []Row, batchTokens int) (loss, accuracy float64, err error) {
	each, err := m.EvaluateRows(s, rows, batchTokens)
	if err != nil {
		return 0, 0, err
	}
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

// RowScore is the evaluation of one row.
type RowScore struct {
	Loss            float64 // summed negative log-likelihood, nats
	Tokens, Correct int
	Top3, Top5      int   // tokens among the three and the five likeliest ones
	Best            int32 // of a classifier: the likeliest label
}

// EvaluateRows scores each row by itself.
func (m *Model) EvaluateRows(s *tensor.Scope, rows []Row, batchTokens int) ([]RowScore, error) {
	out := make([]RowScore, len(rows))
	for from := 0; from < len(rows); {
		to, width := from, 1
		for to < len(rows) {
			w := max(width, len(rows[to].Tokens))
			if to > from && w*(to-from+1) > batchTokens {
				break
			}
			width, to = w, to+1
		}
		batch := rows[from:to]
		s.Do(func() {
			sc := m.Score(s, batch, nil, true)
			for i, lp := range sc.LogProbs {
				r := &out[from+sc.Row[i]]
				r.Loss -= float64(lp)
				r.Tokens++
				if len(sc.Best) > 0 {
					r.Best = sc.Best[i]
				}
				switch rank := sc.Rank[i]; {
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
		})
		from = to
	}
	for i, r := range out {
		if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
			return nil, fmt.Errorf("lm: row %d has the loss %g", i, r.Loss)
		}
	}
	return out, nil
}
