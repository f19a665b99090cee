package dpo

import (
	"context"

	"popri/internal/numeric"
)

// BatchLoss is a loss of all pairs of an update together, which depends on the order of their log-ratios. The loss of
// the update is the mean.
type BatchLoss interface {
	Loss // of an update on one pair
	// EvalAll returns what belongs to each pair; the derivatives are of the sum of all losses.
	EvalAll([]Example) []Value
}

// Value is the result of a loss for a pair.
type Value struct{ Loss, GradChosen, GradRejected float64 }

func value(loss, chosen, rejected float64) Value { return Value{loss, chosen, rejected} }

// evalAll evaluates the pairs of an update, or those that are measured.
func evalAll(l Loss, list []Example) []Value {
	if b, ok := l.(BatchLoss); ok {
		return b.EvalAll(list)
	}
	return numeric.Map(list, func(e Example) Value { return value(l.Eval(e)) })
}

// together evaluates a [BatchLoss] on all pairs of an update before its passes, which then need not know of each other.
// It costs a further forward pass. nil for other losses.
func (t *Tuner) together(ctx context.Context, pairs []Pair) ([]Value, error) {
	l, ok := t.Loss.(BatchLoss)
	if !ok {
		return nil, nil
	}
	examples := make([]Example, len(pairs))
	of := meansOf(pairs)
	err := t.logProbs(ctx, pairs, t.Adapter, func(i int, x [2]float64) {
		examples[i] = pairs[i].example(x, of)
	})
	return l.EvalAll(examples), err
}
