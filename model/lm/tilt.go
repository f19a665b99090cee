package lm

import "popri/model/tensor"

// Tilt is what is added to the logits before a token is drawn, one value for each entry of the vocabulary, so that a model writes
// some tokens more or less often: exponential tilting of the model's distribution,
//
//	π'(v | x) ∝ π(v | x) · exp(Tilt[v])
type Tilt []float32

// add adds the tilt to the first n rows of logits [R, V].
func (t Tilt) add(logits tensor.Tensor, n int) {
	rows := logits.Host()
	defer logits.Store(rows)
	for i := range n {
		row := rows[i*len(t):][:len(t)]
		for v, w := range t {
			row[v] += w
		}
	}
}
