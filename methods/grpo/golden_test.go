package grpo

import (
	"math"
	"path/filepath"
	"testing"

	"popri/testkit/golden"
)

// TestGoldenLosses compares advantages, losses, their gradients with respect to the log-probabilities, and the metrics
// with TRL's. Cases of other losses, clipping ranges and scales than TRL's defaults are of settings that are gone.
func TestGoldenLosses(t *testing.T) {
	var file struct {
		Rewards []float64
		Scales  []struct {
			Scale      string `json:"scale_rewards"`
			Size       int
			Advantages []float64
		}
		Lengths    []int
		Share      float64
		Advantages []float64
		LogProbs   []float64 `json:"logps"`
		Old        []float64
		Cases      []struct {
			LossType          string `json:"loss_type"`
			Beta              float64
			Epsilon           float64
			EpsilonHigh       float64 `json:"epsilon_high"`
			OnPolicy          bool    `json:"on_policy"`
			Loss              float64
			Gradient          []float64
			Low, High, Region float64
		}
	}
	golden.ReadJSON(t, filepath.Join(golden.Folder(t, "grpo"), "cases.json"), &file)
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-12*(1+math.Abs(want)) }
	scales := 0
	for _, k := range file.Scales {
		if k.Scale != "group" {
			continue
		}
		scales++
		got, _ := advantages(file.Rewards, k.Size)
		for i, want := range k.Advantages {
			if !near(got[i], want) {
				t.Errorf("groups of %d: advantage %d is %g, want %g", k.Size, i, got[i], want)
			}
		}
	}
	golden.Checked(t, "grpo/advantages", scales)

	var of []int // the sample of each token
	for i, n := range file.Lengths {
		for range n {
			of = append(of, i)
		}
	}
	clipped, checked := 0, 0
	for n, k := range file.Cases {
		if k.LossType != "dapo" || k.Beta != 0 || k.Epsilon != epsilon || k.EpsilonHigh != epsilon {
			continue
		}
		checked++
		var loss, low, high float64
		for i, sample := range of {
			token := Token{LogProb: file.LogProbs[i], Old: file.Old[i], Advantage: file.Advantages[sample]}
			if k.OnPolicy {
				token.Old = token.LogProb
			}
			v := token.Eval()
			loss += v.Loss / file.Share
			if v.Low {
				low += 1 / float64(len(of))
			}
			if v.High {
				high += 1 / float64(len(of))
			}
			if got := v.Gradient / file.Share; !near(got, k.Gradient[i]) {
				t.Errorf("case %d: gradient %d is %g, want %g", n, i, got, k.Gradient[i])
			}
		}
		// The reference counts clipped tokens in single precision.
		fraction := func(got, want float64) bool { return math.Abs(got-want) < 1e-6 }
		if !near(loss, k.Loss) || !fraction(low, k.Low) || !fraction(high, k.High) || !fraction(low+high, k.Region) {
			t.Errorf("case %d: loss %g, clipped %g and %g, want %+v", n, loss, low, high, k)
		}
		if k.Low > 0 && k.High > 0 {
			clipped++
		}
	}
	if clipped == 0 {
		t.Error("no case clips on both sides")
	}
	golden.Checked(t, "grpo/loss", checked)
}
