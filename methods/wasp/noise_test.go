package wasp

import (
	"math"
	"strings"
	"testing"

	"popri/configs"
	"popri/scoring"
)

// TestPaperNoise: the noise that the paper's formula gives for its settings, and what four releases with it spend
// exactly: with the stated sensitivity of 4, and with the sensitivity of a text's vector of eight votes.
func TestPaperNoise(t *testing.T) {
	for _, c := range []struct {
		sensitivity, epsilon, delta float64
		parties                     int
		want                        float64
	}{
		{4, 4, 1e-5, 1, 9.690}, {4, 4, 1e-5, 10, 3.064}, {4, 1, 1e-5, 1, 38.758}, {4, 8, 1e-5, 1, 4.845},
		{32, 4, 1e-5, 150, 6.329},
		{4, 4, 1e-23, 1, 20.627},
	} {
		if got := paperNoise(c.sensitivity, c.epsilon, c.delta, 4, c.parties); math.Abs(got-c.want) > 6e-4 {
			t.Errorf("%+v: %.4f", c, got)
		}
	}
	sigma := paperNoise(4, 4, 1e-5, 4, 1)
	for norm, want := range map[float64]float64{scoring.ContrastNorm(8): 1.17, 4: 3.23} {
		if got, err := spentBy(sigma/norm, 4e-5, 4); err != nil || math.Abs(got-want) > 0.006 {
			t.Errorf("with the sensitivity %.4f four releases spend ε = %.4f, want %.2f (%v)", norm, got, want, err)
		}
	}
}

// TestPaperWords: the report says what each accounting gives. For the paper's four releases at ε = 4 and 10⁻⁵ each, its
// noise of 9.690 votes, 5.934 times the norm of a text's vector, spends ε = 1.17.
func TestPaperWords(t *testing.T) {
	c := configs.Default()
	c.Trainer.Rounds, c.Privacy.Epsilon, c.Privacy.Delta = 5, 4, 4e-5
	words := paperWords(c, scoring.ContrastNorm(settings.Of(c).Votes))
	for _, want := range []string{"9.690 votes", "a sensitivity of 4", "noise_multiplier=5.934",
		"4 releases spend ε = 1.17 by exact accounting"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in %q", want, words)
		}
	}
}
