package lm

import "popri/model/tensor"

// Activations estimates the bytes that a row of so many tokens needs while its gradient is computed, of which some are
// scored. A block keeps about five rows of the residual stream, the keys and values, and four rows of the MLP for a
// token, and as much again in gradients and intermediate values, or its input alone where recompute says that it is
// computed again; the logits are there in float32 three times. For SmolLM2-135M in bfloat16 it gives 2.2 GiB with 4
// pairs on each of two threads, where 2.4 GiB were measured for all of a training but the weights.
func (c *Config) Activations(tokens, scored int64, compute tensor.DType, recompute bool) int64 {
	used, layers := int64(compute.Size()), int64(c.Layers)
	block := 2 * used * int64(5*c.Hidden+2*c.KVHeads*c.HeadDim()+4*c.Inner)
	kept := tokens * layers * block
	if recompute {
		kept = tokens * (block + layers*int64(c.Hidden)*used)
	}
	return kept + 12*int64(c.Vocab)*scored
}
