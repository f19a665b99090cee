package downstream

import (
	"context"
	"fmt"
	"slices"

	"popri/model/lm"
	"popri/model/tensor"
)

// Validate fine-tunes on every source and returns the best measurement of each on the validation clients. Test clients
// and the train clients' texts are not read, except that the name of a cached result depends on the test clients.
func (u Suite) Validate(ctx context.Context, sources []Source) ([]Point, error) {
	e, validation, err := u.validation()
	if err != nil {
		return nil, err
	}
	common, err := u.commonKey()
	if err != nil {
		return nil, err
	}
	best := make([]Point, len(sources))
	c := counter{tell: u.Progress}
	rows, planned := make([][]lm.Row, len(sources)), make([]int, len(sources))
	for i, src := range sources {
		if src, err = u.known(src); err != nil {
			return nil, err
		}
		rows[i] = u.rows(e, src)
		planned[i] = u.Options.work(rows[i], lm.Tokens(u.Options.measured(validation.Rows)))
		c.planned += planned[i]
	}
	err = u.each(len(sources), func(i int, s *tensor.Scope) error {
		o, worked := u.Options, 0
		o.Worked = func(work int) {
			worked += work
			c.add(work, 0)
		}
		if !sources[i].trained() {
			m, err := u.model(e.Tokenizer)
			if err != nil {
				return err
			}
			defer m.Free()
			best[i].Loss, best[i].Accuracy, err = m.Evaluate(s, o.measured(validation.Rows), nil, evalTokens, o.during(ctx))
			return err
		}
		r, err := u.cached(common+" validation", sources[i], func(state string) (Result, error) {
			m, t, err := u.train(ctx, s, e, rows[i], validation.Rows, o, state)
			if err == nil {
				m.Free()
				t.free()
			}
			return Result{BestStep: t.best.Step, Curve: t.curve, LearningRate: t.rate}, err
		})
		if err != nil {
			return fmt.Errorf("downstream: %s: %w", sources[i].Name, err)
		}
		c.add(0, worked-planned[i])
		best[i] = r.Curve[slices.IndexFunc(r.Curve, func(p Point) bool { return p.Step == r.BestStep })]
		return nil
	})
	return best, err
}
