package assembly

import (
	"slices"

	"popri/configs"
	"popri/dpo/preference"
	"popri/lora"
	"popri/model/lm"
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
	PlanGenerate = "generate"
	PlanTrain    = "train"
)

// MemoryPlan is the memory of the generator in the stages of a run: its weights, the merged copy and the cache of keys
// and values while it writes, and the adapters, AdamW's moments and the activations while it learns. All but the
// activations follows from the shapes. Encoder, public text and libraries come on top, about half a GiB.
func MemoryPlan(c configs.Config, shape lm.Shape) []Need {
	o := ModelOptions(c.Model)
	kept, used := int64(o.Weights.Size()), int64(o.Compute.Size())
	m := shape.Config
	kv := int64(m.KVHeads * m.HeadDim())
	plan := []Need{
		{PlanGenerate, "weights", kept * shape.Parameters},
		{PlanGenerate, "keys and values of generate.batch_tokens",
			2 * kv * int64(m.Layers) * int64(c.Generate.BatchTokens) * used},
	}
	if c.Model.Weights != "compute" || tensor.MatrixUnit() { // the matrix unit reads a layout of its own
		plan = append(plan, Need{PlanGenerate, "merged copy", used * shape.Parameters})
	}
	adapters := int64(0)
	for name, p := range shape.Projections {
		named := func(target string) bool { return lora.Targets(target, name) }
		if len(c.LoRA.Targets) == 0 || slices.ContainsFunc(c.LoRA.Targets, named) {
			adapters += int64(c.LoRA.Rank) * (p[0] + p[1])
		}
	}
	plan = append(plan,
		Need{PlanTrain, "weights", kept * shape.Parameters},
		Need{PlanTrain, "adapters, gradients and AdamW's moments (float32)", 16 * adapters},
		Need{PlanTrain, "activations of the pairs computed at once (estimate)", activations(c, m, used)})
	if lm.CanFreeze(m, shape.Parameters, o.Compute) {
		plan = append(plan, Need{PlanTrain, "weights laid out for products, and their transposes",
			2 * used * shape.Parameters})
	}
	if kept != used {
		plan = append(plan, Need{PlanTrain, "weights converted to the type of the arithmetic (estimate)",
			used * shape.Parameters})
	}
	return plan
}

// activations is an estimate of what the pairs need that are computed at once. A block keeps about five rows of the
// residual stream, the keys and values, and four rows of the MLP for a token, and as much again in gradients and
// intermediate values; the logits of completions are there in float32 three times. For SmolLM2-135M in bfloat16 it
// gives 2.2 GiB with 4 pairs on each of two threads, where 2.4 GiB were measured for all of the stage but the weights.
func activations(c configs.Config, m lm.Config, used int64) int64 {
	pairs := int64(preference.MicroPairs(c))
	passes := (int64(c.Optimizer.Batch) + pairs - 1) / pairs
	pairs = min(pairs*min(passes, int64(tensor.Threads())), int64(c.Optimizer.Batch))
	completions := int64(2 * c.Generate.MaxNewTokens)
	tokens := min(int64(m.Context), int64(max(1, c.Generate.Examples)*c.Data.MaxTokens)+completions)
	block := 2 * used * int64(5*m.Hidden+2*m.KVHeads*m.HeadDim()+4*m.Inner)
	layers := int64(m.Layers)
	kept := tokens * layers * block
	if c.Optimizer.GradientCheckpointing {
		kept = tokens * (block + layers*int64(m.Hidden)*used)
	}
	return pairs * (kept + 12*int64(m.Vocab)*min(completions, tokens))
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
