package assembly

import (
	"slices"

	"popri/configs"
	"popri/dpo/preference"
	"popri/internal/fault"
	"popri/lora"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
)

// Need is a part of the memory that the generator needs in a stage of a run.
type Need struct {
	Stage string `json:"stage"`
	Part  string `json:"part"`
	Bytes int64  `json:"bytes"`
}

// The stages of a plan.
const (
	planGenerate = "generate"
	planTrain    = "train"
)

// MemoryPlan is the memory of the generator in the stages of a run: its weights, the merged copy and the cache of keys
// and values while it writes, and the adapters, AdamW's moments and the activations while it learns. All but the
// activations follows from the shapes. Encoder, public text and libraries come on top, about half a GiB.
func MemoryPlan(c configs.Config, shape lm.Shape) []Need {
	o := modelOptions(c.Model)
	kept, used := int64(o.Weights.Size()), int64(o.Compute.Size())
	m := shape.Config
	kv := int64(m.KVHeads * m.HeadDim())
	plan := []Need{
		{planGenerate, "weights", kept * shape.Parameters},
		{planGenerate, "keys and values of generate.batch_tokens",
			2 * kv * int64(m.Layers) * int64(c.Generate.BatchTokens) * used},
	}
	switch {
	case tensor.MatrixUnit(): // which reads a layout of its own
		plan = append(plan, Need{planGenerate, "merged copy", tensor.PackedSize(o.Compute) * shape.Parameters})
	case c.Model.Weights != "compute":
		plan = append(plan, Need{planGenerate, "merged copy", used * shape.Parameters})
	}
	plan = append(plan,
		Need{planTrain, "weights", kept * shape.Parameters},
		Need{planTrain, "adapters, gradients and AdamW's moments (float32)",
			16 * adapterWeights(shape, c.LoRA.Rank, c.LoRA.Targets)},
		Need{planTrain, "activations of the pairs computed at once (estimate)", activations(c, m, o.Compute)})
	if lm.CanFreeze(m, shape.Parameters, o.Compute) {
		plan = append(plan, Need{planTrain, "weights laid out for products, and their transposes",
			2 * tensor.PackedSize(o.Compute) * shape.Parameters})
	}
	if kept != used {
		plan = append(plan, Need{planTrain, "weights converted to the type of the arithmetic (estimate)",
			used * shape.Parameters})
	}
	return plan
}

// adapterWeights is the number of weights of adapters on the named projections, or on all.
func adapterWeights(shape lm.Shape, rank int, targets []string) (n int64) {
	for name, p := range shape.Projections {
		named := func(target string) bool { return lora.Targets(target, name) }
		if len(targets) == 0 || slices.ContainsFunc(targets, named) {
			n += int64(rank) * (p[0] + p[1])
		}
	}
	return n
}

// activations is an estimate of what the pairs need that are computed at once.
func activations(c configs.Config, m lm.Config, compute tensor.DType) int64 {
	pairs := int64(preference.MicroPairs(c, m, compute))
	passes := (int64(c.Optimizer.Batch) + pairs - 1) / pairs
	pairs = min(pairs*min(passes, int64(tensor.AtOnce())), int64(c.Optimizer.Batch))
	return pairs * preference.PairBytes(c, m, compute)
}

// A small model of largeModel parameters is trained in passes of largePass texts, and one of hugeModel without keeping
// its blocks' activations.
const (
	largeModel, largePass = 20e6, 16
	hugeModel             = 500e6
)

// SmallPasses is how many texts a pass of the small model's training has, 0 for all of a batch, and whether the blocks'
// activations are computed again in its backward pass.
func SmallPasses(d configs.Downstream, small lm.Shape) (texts int, recompute bool) {
	if texts = d.MicroTexts; texts == 0 && small.Parameters >= largeModel {
		texts = min(largePass, d.Batch)
	}
	return texts, small.Parameters >= hugeModel
}

// SmallSettings are the settings of a small model that is named by its path: for a pretrained one, those that suit it.
// With adapters it learns the texts and forgets less than with all weights (docs/lab has the comparison). At half the
// rate, the order of the texts decides whether 60 updates teach the first token of a text, which is worth a point.
func SmallSettings(path string, adapters bool) ([]string, error) {
	settings := []string{"downstream.model=" + path}
	if path == "embedded" || path == configs.Trained {
		return settings, nil
	}
	dir, err := ModelDir(path, shipped.Device)
	if err != nil {
		return nil, err
	}
	shape, err := lm.Inspect(dir)
	if err != nil {
		return nil, fault.User(err)
	}
	if shape.Parameters >= largeModel {
		settings = append(settings, "downstream.recipe=pretrained", "downstream.steps=60", "downstream.epochs=0",
			"downstream.eval_every=20", "downstream.learning_rates=1e-4")
		if adapters {
			settings = append(settings, "downstream.adapter=lora", "downstream.learning_rates=2e-3")
		}
	}
	return settings, nil
}

// SmallRank is the rank of the small model's adapters, on all projections, whatever the generator's: an ablation of
// lora.rank must not change what judges it.
const SmallRank = 8

// SmallMemory is an estimate of the bytes that the training of a small model needs: weights, and of those that are trained
// gradients, AdamW's moments and the best ones, in float32; and the activations of the passes that are computed at once.
func SmallMemory(c configs.Config, small lm.Shape) int64 {
	d, compute := c.Downstream, ComputeType(c.Model.DType)
	texts, recompute := SmallPasses(d, small)
	models, passes := 1, min(tensor.AtOnce(), d.Batch/max(1, texts))
	if texts == 0 {
		models, passes, texts = tensor.AtOnce(), 1, d.Batch
	}
	tokens := int64(texts * d.Length)
	activations := small.Config.Activations(tokens, tokens, compute, recompute)
	weights := 20 * small.Parameters
	if d.Adapter == "lora" {
		weights = 4*small.Parameters + 20*adapterWeights(small, SmallRank, nil)
		if lm.CanFreeze(small.Config, small.Parameters, compute) { // laid out for products, and transposed
			weights += 2 * tensor.PackedSize(compute) * small.Parameters
		}
	}
	return int64(models) * (weights + int64(max(1, passes))*activations)
}

// Most is the largest memory of a stage of the plan, with its stage.
func Most(plan []Need) (stage string, bytes int64) {
	sums := map[string]int64{}
	for _, n := range plan {
		if sums[n.Stage] += n.Bytes; sums[n.Stage] > bytes {
			stage, bytes = n.Stage, sums[n.Stage]
		}
	}
	return stage, bytes
}
