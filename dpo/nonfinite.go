package dpo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"popri/tensor"
)

// NonFinite says that pairs have a loss or a gradient that is not finite. Nothing was trained on the step.
type NonFinite struct {
	Pairs []int    // indices in the step
	Why   []string // the value of each

	original bool // Pairs are in the order of the step, not in the order of computing
}

func (e *NonFinite) add(pair int, why string) {
	e.Pairs, e.Why = append(e.Pairs, pair), append(e.Why, why)
}

// Error names the pairs, a few at most.
func (e *NonFinite) Error() string {
	const most = 3
	var parts []string
	for i, p := range e.Pairs[:min(len(e.Pairs), most)] {
		parts = append(parts, fmt.Sprintf("pair %d: %s", p, e.Why[i]))
	}
	if more := len(e.Pairs) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// blame returns a [*NonFinite] for a step whose gradient is not finite. It computes the gradient of each pair by itself and
// names the pairs whose gradient is not finite; if there are none, because only the sum is too large, it names all pairs.
func (t *Tuner) blame(pairs []Pair, norm float64) error {
	norms := make([]float64, len(pairs))
	err := tensor.Parallel(len(pairs), func(i int, s *tensor.Scope) error {
		grads, err := t.part(s, new(Metrics), pairs[i:i+1], i, pairs)
		if err != nil {
			return err
		}
		views := make([][]float32, len(grads))
		for k, g := range grads {
			views[k] = g.Host()
		}
		norms[i] = tensor.GlobalNorm(views)
		return nil
	})
	if e, ok := errors.AsType[*NonFinite](err); ok {
		e.original = true
	}
	if err != nil {
		return err
	}
	e := &NonFinite{original: true}
	for i, n := range norms {
		if bad(n) {
			e.add(i, fmt.Sprintf("the gradient's norm is %g", n))
		}
	}
	if len(e.Pairs) == 0 {
		for i := range pairs {
			e.add(i, fmt.Sprintf("the gradient's norm of all %d pairs together is %g", len(pairs), norm))
		}
	}
	return e
}

// without returns list without the elements at the given places.
func without[T any](list []T, places []int) []T {
	var out []T
	for i, x := range list {
		if !slices.Contains(places, i) {
			out = append(out, x)
		}
	}
	return out
}
