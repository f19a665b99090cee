package sampling

import (
	"context"

	"popri/model/lm"
)

// Sampler draws samples of prompts: an [lm.Model], or a server that holds the same model. The result is
// [prompt][sample].
type Sampler interface {
	Generate(ctx context.Context, prompts [][]int32, samples int, o lm.SampleOptions) ([][]lm.Sample, error)
}
