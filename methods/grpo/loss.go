package grpo

import "math"

// Loss is the loss of a token.
type Loss struct {
	Epsilon     float64 // the ratio counts down to 1−Epsilon
	EpsilonHigh float64 // and up to 1+EpsilonHigh
	Beta        float64 // weight of the divergence from the reference
}

// Token is a token as the loss sees it. Log-probabilities are in nats.
type Token struct {
	LogProb   float64 // under the policy that learns
	Old       float64 // under the policy that drew the sample
	Reference float64 // under the model without adapters; not read if Beta is 0
	Advantage float64 // of its sample
}

// Value is the loss of a token.
type Value struct {
	Loss, Gradient float64 // Gradient is with respect to LogProb
	KL             float64 // estimate of the divergence from the reference, 0 or more
	Low, High      bool    // the ratio was clipped below or above 1, so that the advantage gives no gradient
}

// Eval computes the loss of a token.
func (l Loss) Eval(t Token) Value {
	ratio := math.Exp(t.LogProb - t.Old)
	clipped := min(max(ratio, 1-l.Epsilon), 1+l.EpsilonHigh)
	v := Value{Loss: -min(ratio*t.Advantage, clipped*t.Advantage), Low: ratio < clipped && t.Advantage < 0,
		High: ratio > clipped && t.Advantage > 0}
	if !v.Low && !v.High {
		v.Gradient = -ratio * t.Advantage
	}
	if l.Beta > 0 {
		d := t.Reference - t.LogProb
		v.KL = ratio * (math.Expm1(d) - d)
		v.Loss += l.Beta * v.KL
		v.Gradient -= l.Beta * ratio * d
	}
	return v
}

// Batch says how large an update is, for the weights of its tokens.
type Batch struct {
	Samples int // trained on
	Tokens  int // of these samples
	// Share is the number of tokens of all the round's samples, times the update's share of the round's prompts.
	Share   float64
	Longest int // tokens of the longest possible sample
}

// Weight returns the weight of each token of a sample with the given number of tokens, by TRL's loss_type.
func (b Batch) Weight(lossType string, tokens int) float64 {
	switch lossType {
	case "grpo":
		return 1 / float64(b.Samples*tokens)
	case "bnpo":
		return 1 / float64(b.Tokens)
	case "dr_grpo":
		return 1 / float64(b.Samples*b.Longest)
	}
	return 1 / b.Share // dapo
}
