package dpo

import (
	"slices"
	"testing"

	"popri/trainer"
)

// Updates of another program move the tuner's numbers and schedule as updates here do.
func TestAdvance(t *testing.T) {
	tuner := &Tuner{Options: Options{Schedule: trainer.Schedule{Kind: "linear", Peak: 1, Warmup: 2, Total: 10}},
		Optimizer: &trainer.Optimizer{Done: trainer.Counters{Steps: 7, Position: 3, Tokens: 100}}}
	rates := tuner.Upcoming(4)
	got := tuner.Advance([]Metrics{{Step: 1, NumTokens: 5}, {Step: 2, NumTokens: 9}})
	if got[0].Step != 8 || got[1].Step != 9 || got[1].NumTokens != 109 || tuner.Optimizer.Done.Steps != 9 {
		t.Errorf("%+v, %d steps", got, tuner.Optimizer.Done.Steps)
	}
	if next := tuner.Upcoming(2); !slices.Equal(next, rates[2:]) || rates[0] != tuner.Schedule.At(3) {
		t.Errorf("learning rates %v, then %v", rates, next)
	}
	if tuner.Advance(nil); tuner.Optimizer.Done.Steps != 9 {
		t.Error("no update is an update")
	}
}
