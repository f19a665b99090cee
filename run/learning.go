package run

import (
	"context"

	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/fedsim"
	"popri/fedsim/local"
	"popri/methods/method"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
)

// rowsOf encodes texts as the evaluation of the small model does: downstream.recipe and length decide.
func rowsOf(c configs.Config) (dir string, e downstream.Encoder, err error) {
	if dir, err = assembly.ModelDir(c.Downstream.Model, shipped.Device); err != nil {
		return dir, e, err
	}
	e, err = downstream.OpenEncoder(dir, c.Downstream.Training().Rows, c.Downstream.Length)
	return dir, e, err
}

// learning adds to a method's environment what methods need that train the small model at the clients.
func (s *Session) learning(e *method.Env) error {
	dir, rows, err := rowsOf(e.Config)
	if err != nil {
		return err
	}
	e.SmallDir = dir
	validation := rows.Encode(clients.Texts(s.Data.Private.Split(clients.Validation)))
	if len(validation) > 0 {
		e.Validate = func(m *lm.Model) (loss, accuracy float64, err error) { return downstream.Measure(m, validation) }
	}
	return nil
}

// learners opens the small model once for each thread, beside the train clients' texts as rows of tokens, and returns
// what makes them a federation.
func (s *Session) learners(ctx context.Context) (func(fedsim.Config) (*fedsim.Federation, error), error) {
	dir, rows, err := rowsOf(s.Config)
	if err != nil {
		return nil, err
	}
	s.learner, err = local.New(ctx, s.Data.Private.Split(clients.Train), rows.Encode, func() (*lm.Model, error) {
		return lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	})
	return func(f fedsim.Config) (*fedsim.Federation, error) { return fedsim.NewLearning(s.learner, f) }, err
}
