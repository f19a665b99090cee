package configs

// GRPO says how the adapters learn from all samples of a prompt by a policy gradient (Group Relative Policy
// Optimization, arXiv 2402.03300), under the names of TRL's GRPOTrainer. Samples and scores are as for "popri". The
// policy is the model at temperature 1: with another generate.temperature, or with top_p, samples are not drawn from
// the policy that learns.
type GRPO struct {
	// LossType says how the loss of the tokens is averaged: "grpo", over the tokens of each sample and then over the
	// samples; "bnpo", over all tokens of an update; "dapo", over all tokens of the round, so that each token has the
	// same weight in all updates; "dr_grpo", over samples of generate.max_new_tokens each, whatever their real length.
	// Default "dapo", as in TRL; "grpo" prefers short good samples and long bad ones.
	LossType string `yaml:"loss_type"`
	// ScaleRewards says by which standard deviation a score's difference from its prompt's mean is divided: that of the
	// prompt's scores ("group"), that of all the round's scores ("batch"), or none. Default "group"; prompts whose
	// samples hardly differ then count as much as others.
	ScaleRewards string `yaml:"scale_rewards"`
	// Epsilon is the clipping range: the ratio of a token's probability to that in the policy that drew it is held
	// above 1−Epsilon where the token is to become less likely, and below 1+Epsilon where it is to become likelier.
	// Default 0.2; above 0 and at most 1. It matters from a round's second update on.
	Epsilon float64 `yaml:"epsilon"`
	// Beta is the weight of the Kullback-Leibler divergence from the model without adapters. Default 0, as in TRL,
	// which also saves a forward pass over the samples.
	Beta float64 `yaml:"beta"`
	// BestOfN is the weight of an anchor: the next-token loss of each prompt's sample with the highest score, per
	// token, is added (arXiv 2602.18633, 2510.18232). Default 0, none.
	BestOfN float64 `yaml:"best_of_n"`
	// SamplesUsed is how many of the best and of the worst samples of each prompt are trained on, since every sample
	// costs a forward and a backward pass. Mean and standard deviation are those of all samples. 0, the default, uses
	// all; at most half of generate.samples.
	SamplesUsed int `yaml:"samples_used"`
}

// policyGradient checks the section grpo.
func (v *validator) policyGradient(c Config) {
	g := c.GRPO
	v.oneOf("grpo.loss_type", g.LossType, policyLosses)
	v.oneOf("grpo.scale_rewards", g.ScaleRewards, rewardScales)
	v.above("grpo.epsilon", g.Epsilon, 0, 1)
	v.between("grpo.beta", g.Beta, 0, 1e3)
	v.between("grpo.best_of_n", g.BestOfN, 0, 1e3)
	v.count("grpo.samples_used", g.SamplesUsed, 0, maxCount)
	if 2*g.SamplesUsed > c.Generate.Samples && c.Generate.Samples >= 2 {
		v.add("grpo.samples_used", "is %d, must be at most half of generate.samples, which is %d", g.SamplesUsed,
			c.Generate.Samples)
	}
}
