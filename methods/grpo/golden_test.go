package grpo

import (
	"math"
	"path/filepath"
	"testing"

	"popri/testkit/golden"
)

// TestGoldenLosses compares advantages, losses, their gradients with respect to the log-probabilities, and the metrics
// with TRL's.
func TestGoldenLosses(t *testing.T) {
	var file struct {
		Rewards []float64
		Scales  []struct {
			Scale      string `json:"scale_rewards"`
			Size       int
			Advantages []float64
		}
		Lengths        []int
		Longest        int
		Share          float64
		Advantages     []float64
		LogProbs       []float64 `json:"logps"`
		Old, Reference []float64
		Cases          []struct {
			LossType          string `json:"loss_type"`
			Beta              float64
			Epsilon           float64
			EpsilonHigh       float64 `json:"epsilon_high"`
			OnPolicy          bool    `json:"on_policy"`
			Loss, KL          float64
			Gradient          []float64
			Low, High, Region float64
		}
	}
	golden.ReadJSON(t, filepath.Join(golden.Folder(t, "grpo"), "cases.json"), &file)
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-12*(1+math.Abs(want)) }
	for _, k := range file.Scales {
		got, _ := Advantages(file.Rewards, k.Size, k.Scale)
		for i, want := range k.Advantages {
			if !near(got[i], want) {
				t.Errorf("scale_rewards %s, groups of %d: advantage %d is %g, want %g", k.Scale, k.Size, i, got[i],
					want)
			}
		}
	}
	golden.Checked(t, "grpo/advantages", len(file.Scales))

	batch := Batch{Samples: len(file.Lengths), Share: file.Share, Longest: file.Longest}
	var of []int // the sample of each token
	for i, n := range file.Lengths {
		batch.Tokens += n
		for range n {
			of = append(of, i)
		}
	}
	clipped := 0
	for n, k := range file.Cases {
		l := Loss{Epsilon: k.Epsilon, EpsilonHigh: k.EpsilonHigh, Beta: k.Beta}
		var loss, kl, low, high float64
		for i, sample := range of {
			token := Token{LogProb: file.LogProbs[i], Old: file.Old[i], Reference: file.Reference[i],
				Advantage: file.Advantages[sample]}
			if k.OnPolicy {
				token.Old = token.LogProb
			}
			v := l.Eval(token)
			weight := batch.Weight(k.LossType, file.Lengths[sample])
			loss += weight * v.Loss
			kl += v.KL / float64(batch.Tokens)
			if v.Low {
				low += 1 / float64(batch.Tokens)
			}
			if v.High {
				high += 1 / float64(batch.Tokens)
			}
			if got := weight * v.Gradient; !near(got, k.Gradient[i]) {
				t.Errorf("case %d (%s, beta %g): gradient %d is %g, want %g", n, k.LossType, k.Beta, i, got,
					k.Gradient[i])
			}
		}
		// The reference counts clipped tokens in single precision.
		share := func(got, want float64) bool { return math.Abs(got-want) < 1e-6 }
		if !near(loss, k.Loss) || !near(kl, k.KL) || !share(low, k.Low) || !share(high, k.High) ||
			!share(low+high, k.Region) {
			t.Errorf("case %d (%s, beta %g): loss %g, divergence %g, clipped %g and %g, want %+v", n, k.LossType,
				k.Beta, loss, kl, low, high, k)
		}
		if k.Low > 0 && k.High > 0 {
			clipped++
		}
	}
	if clipped == 0 {
		t.Error("no case clips on both sides")
	}
	golden.Checked(t, "grpo/loss", len(file.Cases))
}
