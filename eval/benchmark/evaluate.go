package benchmark

import (
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/model/tensor"
)

// EvaluateOptions are the size of the benchmark.
type EvaluateOptions struct {
	Model   string       // folder with the model and eval.json
	N       int          // rows, from the first
	DType   tensor.DType // of the products; weights are float32
	Profile bool         // say where the time goes
}

// Evaluate times the next-token loss and accuracy of rows, as an evaluation of a small model measures them.
func Evaluate(o EvaluateOptions) (*Result, error) {
	if o.N < 1 {
		return nil, fault.Userf("%d rows: want at least 1", o.N)
	}
	m, rows, tokens, err := readRows(o.Model, "eval.json", o.DType)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	projections, head := inProducts(m)
	flops := 2 * float64(projections+head) * float64(tokens) / float64(len(rows))
	rows = rows[:min(o.N, len(rows))]
	r, err := measureAgain("evaluate", o.DType.String(), "rows", o.Profile, func() (int, error) {
		_, _, err := downstream.Measure(m, nil, rows)
		return len(rows), err
	})
	if err == nil {
		r.Flops = flops * float64(r.Items)
	}
	return r, err
}
