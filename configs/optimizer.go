package configs

import (
	"math"
	"slices"
)

// Optimizer says how the adapters are trained, whatever they learn from: by AdamW with decay rates 0.9 and 0.999, 1e-8
// in its divisor, on gradients clipped to an L2 norm of 1. Whatever the method, a run has one learning rate, which depends on the model more
// than on what it learns from; for private_evolution_sft and the warm-up it is constant. The small model of downstream
// is trained by a recipe of its own.
type Optimizer struct {
	// LearningRate is AdamW's peak learning rate, above 0. Default 5e-4, found for the embedded model with rank 8;
	// the preset for SmolLM2-135M has 3e-4, and the paper 8e-7 for LLaMA-3-8B. Twice as much overshoots: texts
	// degenerate. With far less, preference training moves nothing, which a run says.
	LearningRate float64 `yaml:"learning_rate" range:"(0, 10]"`
	// Batch is the number of examples of an update: pairs ("popri"), prompts with all their samples ("grpo"), chosen
	// samples ("private_evolution_sft"). Default 20; fewer make updates noisier. The samples of "private_evolution_sft"
	// are all in memory at once.
	Batch int `yaml:"batch" range:"[1, 2^30]"`
	// Epochs is the number of passes over a round's examples. Default 1; the examples come from the model before the
	// round, and a second pass overfits them.
	Epochs int `yaml:"epochs" range:"[1, 1000]"`
	// Schedule is "constant", "constant_with_warmup", "linear", "cosine" or "cosine_with_min_lr", under transformers'
	// names, over all steps of all rounds, as in the paper: all but "constant" begin with the warm-up. "margin" is
	// constant within a round, and over the rounds in proportion to the mean difference of the scores of a round's pairs
	// ("grpo": to the rewards' mean deviation within a prompt). Round 1 has the whole rate, and no round has more. Near the
	// clients, scores hardly differ, and at a constant rate the samples swing around the clients' texts. With other
	// methods, "margin" is "constant". Default "cosine".
	Schedule string `yaml:"schedule" oneof:"constant|constant_with_warmup|linear|cosine|cosine_with_min_lr|margin"`
	// MinLearningRate is the last learning rate of the schedule "cosine_with_min_lr". Default 0, the only value for
	// other schedules.
	MinLearningRate float64 `yaml:"min_learning_rate" range:"[0, 10]"`
	// WarmupSteps is the number of first steps over which the learning rate rises from 0, at most half of all; below 1,
	// their share, rounded up. Default 5; 0 for none.
	WarmupSteps float64 `yaml:"warmup_steps" range:"[0, 2^30]"`
	// WeightDecay is AdamW's decoupled weight decay of the adapters. Default 0, because adapters are small already.
	WeightDecay float64 `yaml:"weight_decay" range:"[0, 10]"`
	// GradientCheckpointing keeps only the inputs of the model's blocks in the forward pass and computes the rest again
	// in the backward pass: less memory, a third more work, the same gradients. Default false.
	GradientCheckpointing bool `yaml:"gradient_checkpointing"`
}

// CarriesMoments reports whether a round continues with AdamW's moments of the one before, as in the paper. TRL begins
// with new ones.
func (c Config) CarriesMoments() bool { return c.DPO.Engine != TRL }

// Margin is the schedule whose rate follows the scores.
const Margin = "margin"

// optimizer checks the section optimizer.
func (v *Report) optimizer(c Config) {
	o := c.Optimizer
	if m := o.MinLearningRate; m > o.LearningRate {
		v.Add("optimizer.min_learning_rate", "is %v, must be at most optimizer.learning_rate, which is %v", m,
			o.LearningRate)
	} else if m > 0 && o.Schedule != "cosine_with_min_lr" && slices.Contains(Choices("optimizer.schedule"), o.Schedule) {
		v.Add("optimizer.min_learning_rate",
			"is %v, must be 0 where optimizer.schedule is %q: cosine_with_min_lr ends above 0", m, o.Schedule)
	}
	if w := o.WarmupSteps; w > 1 && w != math.Trunc(w) {
		v.Add("optimizer.warmup_steps", "is %v, must be a whole number, or below 1 for a share of the steps", w)
	}
}
