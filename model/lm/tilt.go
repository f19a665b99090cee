package lm

import (
	"slices"

	"popri/model/tensor"
)

// Tilt is what is added to the logits before a token is drawn, so that a model writes some tokens, and some tokens behind others,
// more or less often: exponential tilting of the model's distribution, with the features of a log-linear model,
//
//	π'(v | x) ∝ π(v | x) · exp(Tokens[v] + After[last token of x][v])
type Tilt struct {
	Tokens []float32               // one for each entry of the vocabulary
	After  map[int32][]TokenWeight // by the token before, which must be one that was drawn
}

// TokenWeight is a token with what is added to its logit.
type TokenWeight struct {
	Token  int32
	Weight float32
}

// add adds the tilt to the rows of logits [R, V], of which the first are of the sequences.
func (t *Tilt) add(logits tensor.Tensor, seqs []*sequence) {
	rows, vocab := logits.Host(), len(t.Tokens)
	defer logits.Store(rows)
	for i, q := range seqs {
		row := rows[i*vocab:][:vocab]
		for v, w := range t.Tokens {
			row[v] += w
		}
		if n := len(q.ids); n > 0 {
			for _, w := range t.After[q.ids[n-1]] {
				row[w.Token] += w.Weight
			}
		}
	}
}

// fits reports whether the tilt fits a vocabulary.
func (t *Tilt) fits(vocab int) bool {
	outside := func(id int32) bool { return id < 0 || int(id) >= vocab }
	for before, list := range t.After {
		if outside(before) || slices.ContainsFunc(list, func(w TokenWeight) bool { return outside(w.Token) }) {
			return false
		}
	}
	return len(t.Tokens) == vocab
}
