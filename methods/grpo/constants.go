package grpo

// What TRL's GRPOTrainer does by default: the clipping range of a token's ratio, which matters from a round's second
// update on; how the tokens' losses are averaged, of which "grpo" prefers short good samples and long bad ones; and what
// advantages are divided by, so that prompts whose samples hardly differ count as much as others. The divergence from the
// model without adapters has no weight, which also saves a forward pass over the samples.
const (
	epsilon  = 0.2
	lossType = "dapo"
	scale    = "group"
)
