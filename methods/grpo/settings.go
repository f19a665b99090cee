package grpo

import "popri/configs"

// Settings says how the adapters learn from all samples of a prompt by a policy gradient (Group Relative Policy
// Optimization, arXiv 2402.03300), under the names of TRL's GRPOTrainer. Samples and scores are as for "popri". The
// policy is the model at temperature 1: with another generate.temperature, or with top_p, samples are not drawn from
// the policy that learns. A score's difference from its prompt's mean is divided by the standard deviation of the
// prompt's scores, the ratio of a token's probability to that in the policy that drew it is clipped at 0.8 and 1.2, and
// each token of the round has the same weight in all updates (TRL's loss_type "dapo").
type Settings struct {
	// Beta is the weight of the Kullback-Leibler divergence from the model without adapters. Default 0, as in TRL,
	// which also saves a forward pass over the samples.
	Beta float64 `yaml:"beta"`
}

var settings = configs.Register("grpo", Settings{}, func(r *configs.Report, _ configs.Config, s Settings) {
	r.Between("grpo.beta", s.Beta, 0, 1e3)
})

// TRL's defaults: the clipping range of a token's ratio, which matters from a round's second update on; how the tokens'
// losses are averaged, of which "grpo" prefers short good samples and long bad ones; and what advantages are divided by,
// so that prompts whose samples hardly differ count as much as others.
const (
	epsilon  = 0.2
	lossType = "dapo"
	scale    = "group"
)
