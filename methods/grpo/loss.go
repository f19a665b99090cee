package grpo

import "math"

// epsilon is the range of a token's ratio of probabilities, as in TRL, which matters from a round's second update on.
const epsilon = 0.2

// Token is a token as the loss sees it.
type Token struct {
	LogProb   float64 // under the policy that learns, nats
	Old       float64 // under the policy that drew the sample, nats
	Advantage float64 // of its sample
}

// Value is the loss of a token.
type Value struct {
	Loss, Gradient float64 // Gradient is with respect to LogProb
	Low, High      bool    // the ratio was clipped below or above 1, so that the advantage gives no gradient
}

// Eval computes the loss of a token: what TRL's GRPOTrainer does by default, without a divergence from the model without
// adapters. The loss of an update is the mean over its part of the round's tokens ("dapo").
func (t Token) Eval() Value {
	ratio := math.Exp(t.LogProb - t.Old)
	clipped := min(max(ratio, 1-epsilon), 1+epsilon)
	v := Value{Loss: -min(ratio*t.Advantage, clipped*t.Advantage), Low: ratio < clipped && t.Advantage < 0,
		High: ratio > clipped && t.Advantage > 0}
	if !v.Low && !v.High {
		v.Gradient = -ratio * t.Advantage
	}
	return v
}
