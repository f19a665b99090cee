package downstream

import (
	"cmp"
	"fmt"

	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/mixture"
	"popri/model/tensor"
)

// Tested is a small model as it is tested: with the table in its folder mixed in, if there is one (package mixture).
type Tested struct {
	*lm.Model
	table *mixture.Table // nil for none
}

// OpenTested loads the model in a folder, and its table.
func OpenTested(dir string, o lm.Options) (t Tested, err error) {
	if t.Model, err = lm.LoadBase(dir, o); err != nil {
		return t, err
	}
	if t.table, err = mixture.Read(dir, t.Config.Vocab); err != nil {
		t.Free()
	}
	return t, err
}

// Measure is [Measure] of the tested model.
func (t Tested) Measure(rows []lm.Row) (loss, accuracy float64, err error) {
	err = tensor.Run(func(s *tensor.Scope) error {
		each, err := t.rows(s, rows, nil)
		if err == nil {
			loss, accuracy, err = lm.Mean(each)
		}
		return err
	})
	return loss, accuracy, err
}

// Predict calls use with the logits over the vocabulary before each counted token of rows, which it may overwrite, the
// token before that and the token. Of validation texts it takes o.Measured, drawn by o.Seed, as a training does.
func Predict(m *lm.Model, validation []lm.Row, o Options, use func(before, next int32, logits []float32)) error {
	rows := o.measured(validation)
	return tensor.Run(func(s *tensor.Scope) error {
		m.Distributions(s, rows, evalTokens, func(row, token int, logits []float32) {
			use(rows[row].Tokens[token-1], rows[row].Tokens[token], logits)
		})
		return nil
	})
}

// distributions is [lm.Model.Distributions], with log-probabilities in place of the logits where there is a table.
func (t Tested) distributions(s *tensor.Scope, rows []lm.Row, f func(row, token int, logits []float32)) {
	t.Distributions(s, rows, evalTokens, func(row, token int, logits []float32) {
		if t.table != nil {
			t.table.Mix(rows[row].Tokens[token-1], logits)
		}
		f(row, token, logits)
	})
}

// rows scores each row by itself.
func (t Tested) rows(s *tensor.Scope, rows []lm.Row, done func(tokens int) error) ([]lm.RowScore, error) {
	if t.table == nil {
		return t.EvaluateRows(s, rows, nil, evalTokens, done)
	}
	out := make([]lm.RowScore, len(rows))
	var ended error
	t.distributions(s, rows, func(row, token int, logs []float32) {
		r, next := &out[row], rows[row].Tokens[token]
		r.Loss -= float64(logs[next])
		rank := 0 // as tensor.LogProbs has it
		for v, l := range logs {
			if l > logs[next] || l == logs[next] && v < int(next) {
				rank++
			}
		}
		r.AddRank(rank)
		if done != nil && token == len(rows[row].Tokens)-1 {
			ended = cmp.Or(ended, done(len(rows[row].Tokens)))
		}
	})
	if ended != nil {
		return nil, ended
	}
	for i, r := range out {
		if !numeric.Finite(r.Loss) {
			return nil, fmt.Errorf("downstream: row %d has the loss %g with the table of its model", i, r.Loss)
		}
	}
	return out, nil
}
