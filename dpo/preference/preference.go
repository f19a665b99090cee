// Package preference sets preference training up from a configuration's dpo section: for POPri's rounds, and for
// anybody's pairs.
package preference

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"popri/configs"
	"popri/dpo"
	"popri/internal/quote"
	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/trainer"
)

// Files of a training.
const (
	StepsFile = "steps.jsonl" // a line of metrics for each update, under TRL's names
	EvalsFile = "evals.jsonl" // a line for each measurement
)

// Schedule makes the schedule that the configuration's section optimizer describes, over the given number of steps.
func Schedule(o configs.Optimizer, steps int) trainer.Schedule {
	warmup := o.WarmupSteps
	if warmup < 1 {
		warmup = math.Ceil(warmup * float64(steps))
	}
	kind := o.Schedule
	if kind == configs.Margin { // of a round
		kind = "constant"
	}
	return trainer.Schedule{Kind: kind, Peak: o.LearningRate, Min: o.MinLearningRate,
		Warmup: min(int(warmup), steps/2), Total: steps}
}

// leastMove is the difference of the log-ratios of chosen and rejected samples, in nats, below which training did nothing.
const leastMove = 1e-3

// Idle warns of updates that moved nothing; "" of others. Figures of an update are those before it, so the first ones are
// always 0.
func Idle(c configs.Config, steps []dpo.Metrics) string {
	last := steps[len(steps)-1]
	still := !slices.ContainsFunc(steps, func(m dpo.Metrics) bool { return m.LearningRate > 0 })
	if !still && (len(steps) < 3 || math.Abs(last.RewardsMargins)/c.DPO.Beta >= leastMove) {
		return ""
	}
	return fmt.Sprintf("the %s moved nothing (loss %.4f, margin %.2g): optimizer.learning_rate is %g, "+
		"of which the schedule left %.2g in the last update, and optimizer.warmup_steps is %g",
		quote.Count(len(steps), "update", "updates"), last.Loss, last.RewardsMargins, c.Optimizer.LearningRate, last.LearningRate, c.Optimizer.WarmupSteps)
}

// Adapter describes the adapter of the configuration's section lora, for the model that is in a folder or has a name.
func Adapter(l configs.LoRA, model string) lora.Config {
	return lora.Config{Rank: l.Rank, Alpha: l.Alpha, Targets: l.Targets, Base: model}
}

// NewDPO prepares preference training of an adapter as the configuration's dpo section says, with a schedule over the
// given number of steps.
func NewDPO(c configs.Config, m *lm.Model, a *lora.Adapter, steps int) (*dpo.Tuner, error) {
	d := c.DPO
	loss, err := dpo.NewLoss(d.Loss, dpo.Params{Beta: d.Beta, LabelSmoothing: d.LabelSmoothing, SFT: d.SFTWeight,
		Gamma: simpoGamma, Samples: c.Generate.Samples})
	if err != nil {
		return nil, err
	}
	m.Recompute = c.Optimizer.GradientCheckpointing
	return dpo.NewTuner(m, a, dpo.Options{Loss: loss, Beta: d.Beta, Schedule: Schedule(c.Optimizer, steps),
		BatchPairs: c.Optimizer.Batch, MicroPairs: MicroPairs(c, m.Config, m.Compute), AdamW: Optimizer(c.Optimizer)})
}

// PairBytes estimates the memory that a pair needs while it is computed.
func PairBytes(c configs.Config, m lm.Config, compute tensor.DType) int64 {
	completions := int64(2 * c.Generate.MaxNewTokens)
	tokens := pairTokens(c, m)
	return m.Activations(tokens, min(completions, tokens), compute, c.Optimizer.GradientCheckpointing)
}

// pairTokens is the most tokens that a pair should have.
func pairTokens(c configs.Config, m lm.Config) int64 {
	return min(int64(m.Context), int64(max(1, c.Generate.Examples)*c.Data.MaxTokens+2*c.Generate.MaxNewTokens))
}

// MicroPairs is the number of pairs of a pass of the model m.
func MicroPairs(c configs.Config, m lm.Config, compute tensor.DType) int {
	size := trainer.PassSize(PairBytes(c, m, compute), pairTokens(c, m), c.Optimizer.Batch)
	if c.DPO.Engine == configs.TRL { // which computes one pass at a time, wherever it runs
		size = trainer.LonePass
	}
	return min(c.Optimizer.Batch, cmp.Or(c.DPO.MicroPairs, size))
}

// Optimizer are AdamW's settings for adapters. Its constants are from its paper; no program that trains adapters
// changes them. Gradients are clipped to TRL's norm.
func Optimizer(o configs.Optimizer) trainer.AdamW { return trainer.UsualAdamW(o.WeightDecay, 1) }

// simpoGamma is the margin of the loss "simpo", TRL's default. Its paper tunes it together with β.
const simpoGamma = 0.5

// CheckMeasures returns an error if dpo.best needs a measurement that is not available: held says that there are
// held-out pairs, distance that there are validation texts for a Fréchet distance.
func CheckMeasures(d configs.DPO, held, distance bool) error {
	switch {
	case d.Best == "pairs" && !held:
		return errors.New("dpo.best is \"pairs\", but none are held out: set dpo.eval_share above 0, or give a file of them (popri dpo --eval-pairs)")
	case d.Best == "fid" && !distance:
		return errors.New("dpo.best is \"fid\", but there are no validation texts to measure the distance to: " +
			"hold pairs out (dpo.eval_share) and set dpo.best to \"pairs\"")
	}
	return nil
}

// NewFit prepares the training on pairs as the configuration's dpo section says. held are the held-out pairs.
func NewFit(c configs.Config, t *dpo.Tuner, pairs, held []dpo.Pair, stream ...string) *dpo.Fit {
	return &dpo.Fit{Tuner: t, Pairs: pairs, Held: held, Epochs: c.Optimizer.Epochs, KeepBest: c.DPO.Best != "last",
		Order: func(epoch int) []int {
			return rng.New(c.Seed, append(stream[:len(stream):len(stream)], "dpo", strconv.Itoa(epoch))...).Perm(len(pairs))
		}}
}
