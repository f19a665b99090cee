package benchmark

import (
	"context"

	"popri/dpo"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
)

// DPOOptions are the size of the benchmark. The other settings equal the peer's script for TRL: LoRA of rank 4 on all
// projections, β 0.01.
type DPOOptions struct {
	Model     string       // folder with the model and pairs.json
	K         int          // pairs, from the first
	DType     tensor.DType // of the products; adapters and optimizer are float32
	Profile   bool         // say where the time goes
	Batch     int          // pairs of an update
	Micro     int          // pairs of one forward pass; 0 takes the default, as runs do
	Recompute bool         // gradient checkpointing
}

// DPO times one epoch of preference training, the reference log-probabilities included.
func DPO(ctx context.Context, o DPOOptions) (*Result, error) {
	if o.K < 1 || o.Batch < 1 {
		return nil, fault.Userf("%d pairs in updates of %d: want at least 1", o.K, o.Batch)
	}
	var work []struct{ Prompt, Chosen, Rejected []int32 }
	if err := readJSON(o.Model, "pairs.json", &work); err != nil {
		return nil, fault.User(err)
	}
	work = work[:min(o.K, len(work))]
	m, err := lm.Load(o.Model, lm.Options{Weights: o.DType, Compute: o.DType})
	if err != nil {
		return nil, fault.User(err)
	}
	defer m.Free()
	m.Recompute = o.Recompute
	pairs := make([]dpo.Pair, len(work))
	for i, w := range work {
		pairs[i] = dpo.Pair{Prompt: w.Prompt, Chosen: w.Chosen, Rejected: w.Rejected}
	}
	a, err := lora.New(m, lora.Config{Rank: 4, Alpha: 8}, rng.New(1, "benchmark"))
	if err != nil {
		return nil, err
	}
	defer a.Free()
	t, err := newTuner(m, a, pairs, o.Batch, o.Micro)
	if err != nil {
		return nil, err
	}
	defer t.Optimizer.Free()
	// A run has hundreds of updates; the first one, which also fetches memory, is not timed.
	if err := epoch(ctx, t, pairs[:min(o.Batch, len(pairs))]); err != nil {
		return nil, err
	}
	r, err := measure("dpo", o.DType.String(), "pairs", o.Profile,
		func() (int, error) { return len(pairs), epoch(ctx, t, pairs) })
	if err != nil {
		return nil, err
	}
	r.Flops = preferenceFlops(m, pairs)
	return r, nil
}

// preferenceFlops is the work of preference training on pairs, once. Three products a weight and token: the forward
// pass, the forward pass of the reference, and the gradients of the activations, which are the only gradients that need
// the frozen weights. The prompt counts once, and not in what follows the last block's attention.
func preferenceFlops(m *lm.Model, pairs []dpo.Pair) (flops float64) {
	projections, head := inProducts(m)
	c := m.Config
	behind := projections/int64(c.Layers) - int64(c.Hidden)*int64(c.Heads+2*c.KVHeads)*int64(c.HeadDim())
	for _, p := range pairs {
		completions := len(p.Chosen) + len(p.Rejected)
		flops += 3 * 2 * float64(projections) * float64(len(p.Prompt)+completions)
		flops -= 3 * 2 * float64(behind) * float64(len(p.Prompt))
		flops += 3 * 2 * float64(head) * float64(completions)
	}
	return flops
}
