package benchmark

import (
	"context"
	"errors"
	"slices"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tensor"
)

// GenerateOptions are the size of the benchmark.
type GenerateOptions struct {
	Model string       // folder with the model and prompts.json
	K     int          // prompts, from the first
	J     int          // samples of each
	New   int          // tokens of each sample, neither more nor fewer
	DType tensor.DType // of weights and products
	Seed  uint64
	TopP  float64 // keep the likeliest tokens that hold this much of the probability; 0 keeps all
	Bytes bool    // weights and inputs of projections are rounded to bytes, see [lm.Options]
	// Profile says where the time goes.
	Profile bool
}

// Generate times drawing K·J samples at temperature 1.
func Generate(ctx context.Context, o GenerateOptions) (*Result, error) {
	if o.K < 1 || o.J < 1 || o.New < 1 {
		return nil, fault.Userf("%d prompts, %d samples, %d tokens: want at least 1", o.K, o.J, o.New)
	}
	var prompts [][]int32
	if err := readJSON(o.Model, "prompts.json", &prompts); err != nil {
		return nil, fault.User(err)
	}
	prompts = prompts[:min(o.K, len(prompts))]
	m, err := lm.Load(o.Model, lm.Options{Weights: o.DType, Compute: o.DType, Sampling: true, Bytes: o.Bytes})
	if err != nil {
		return nil, fault.User(err)
	}
	defer m.Free()
	// A run draws many times as much; the first time, which also fetches memory, is not timed.
	r, err := measureAgain("generate", o.DType.String(), "completion tokens", o.Profile, func() (int, error) {
		out, err := m.Generate(ctx, prompts, o.J, lm.SampleOptions{Temperature: 1, TopP: o.TopP, MinNewTokens: o.New,
			MaxNewTokens: o.New, IgnoreEOS: true, Seed: o.Seed})
		return numeric.Sum(slices.Concat(out...), func(s lm.Sample) int { return len(s.IDs) }), err
	})
	if err != nil {
		return nil, err
	}
	if want := len(prompts) * o.J * o.New; r.Items != want {
		return nil, errors.New("a sample ended early")
	}
	projections, head := inProducts(m)
	for _, p := range prompts {
		r.Flops += 2 * float64(projections) * float64(len(p)+o.J*(o.New-1))
		r.Flops += 2 * float64(head) * float64(1+o.J*(o.New-1))
	}
	return r, nil
}
