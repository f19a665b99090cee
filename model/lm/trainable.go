package lm

import (
	"fmt"

	"popri/model/tensor"
)

// Trainable marks all weights of the model as parameters and returns them in the order of [Model.Names].
func (m *Model) Trainable() ([]tensor.Tensor, error) {
	m.unpack() // the copies would not follow the training
	var params []tensor.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			p := m.params[name]
			if p.DType() != tensor.Float32 {
				return fmt.Errorf("lm: %s has the type %v, training needs float32 weights", name, p.DType())
			}
			s.RequireGrad(p, true)
			params = append(params, p)
		}
		return nil
	})
	return params, err
}

// Counted is the number of tokens that count in the rows' loss; for a classifier, the number of rows.
func (m *Model) Counted(rows []Row) int {
	_, tokens, _ := m.targets(rows, make([]int64, len(rows)))
	return len(tokens)
}

// LossGradients runs a forward and a backward pass on rows. It returns their share of the mean next-token loss over
// total counted tokens (negative log-likelihood, nats), and its gradients with respect to leaves, which [Model.Leaves]
// gives.
func (m *Model) LossGradients(s *tensor.Scope, rows []Row, adapter Adapter, leaves []tensor.Tensor, total int,
	drop Dropout) (loss float64, grads []tensor.Tensor) {
	s.WithGrad(func() {
		sc := m.unscored(s, rows, adapter, dropout{Dropout: drop})
		weights := make([]float32, len(sc.Row))
		for i := range weights {
			weights[i] = -1 / float32(total)
		}
		grads = sc.Gradients(s, weights, leaves)
		for _, lp := range sc.LogProbs {
			loss -= float64(lp) / float64(total)
		}
	})
	return loss, grads
}
