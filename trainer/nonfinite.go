package trainer

import (
	"errors"
	"fmt"
	"strings"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// NonFinite says that examples have a loss or a gradient that is not finite. Nothing was trained on the update.
type NonFinite struct {
	What     string   // what an example is called
	Examples []int    // indices in the batch
	Why      []string // the value of each
}

// Add names an example and its value.
func (e *NonFinite) Add(example int, why string) {
	e.Examples, e.Why = append(e.Examples, example), append(e.Why, why)
}

// Error names the examples, a few at most.
func (e *NonFinite) Error() string {
	const most = 3
	var parts []string
	for i, p := range e.Examples[:min(len(e.Examples), most)] {
		parts = append(parts, fmt.Sprintf("%s %d: %s", e.What, p, e.Why[i]))
	}
	if more := len(e.Examples) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// blame returns a [*NonFinite] for a batch whose gradient is not finite. It computes the gradient of each example by
// itself and names the examples whose gradient is not finite; if there are none, because only the sum is too large, it
// names all.
func (b Batch) blame(norm float64) error {
	e := &NonFinite{What: b.What}
	if b.Alone == nil {
		return notFinite(norm)
	}
	norms := make([]float64, b.Examples)
	err := tensor.Parallel(b.Examples, func(i int, s *tensor.Scope) error {
		grads, err := b.Alone(i)(s)
		if err != nil {
			return err
		}
		norms[i] = tensor.GlobalNorm(numeric.Map(grads, func(g tensor.Tensor) []float32 { return s.To(g, tensor.Float32).Host() }))
		return nil
	})
	if err != nil {
		return err
	}
	for i, n := range norms {
		if !numeric.Finite(n) {
			e.Add(i, notFinite(n).Error())
		}
	}
	if len(e.Examples) == 0 {
		for i := range b.Examples {
			e.Add(i, fmt.Sprintf("the gradient's norm of all %d %ss together is %g", b.Examples, b.What, norm))
		}
	}
	return e
}

// NonFiniteExamples returns the indices in the batch that an error of an update blames, nil if it blames none.
func NonFiniteExamples(err error) []int {
	if e, ok := errors.AsType[*NonFinite](err); ok {
		return e.Examples
	}
	return nil
}
