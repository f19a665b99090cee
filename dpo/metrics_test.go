package dpo

import (
	"math"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
)

// TestEntropyAndTokens compares with the logits of each completion in a row of its own.
func TestEntropyAndTokens(t *testing.T) {
	for _, micro := range []int{1, 3, 8} {
		testEntropy(t, micro)
	}
}

func testEntropy(t *testing.T, micro int) {
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, micro)
	pairs := referenced(t, tr, testPairs(7, 21))
	disturb(tr)
	want, positions, tokens := 0.0, 0, int64(0)
	err := tensor.Parallel(1, func(_ int, s *tensor.Scope) error {
		for _, p := range pairs {
			for _, completion := range [][]int32{p.Chosen, p.Rejected} {
				var ids []int64
				for _, id := range p.Prompt {
					ids = append(ids, int64(id))
				}
				for _, id := range completion {
					ids = append(ids, int64(id))
				}
				tokens += int64(len(ids))
				logits := tr.Model.Logits(s,
					tr.Model.Hidden(s, lm.Input{IDs: s.FromInt64(ids, 1, int64(len(ids)))}, tr.Adapter))
				probabilities := s.Float64s(s.Softmax(logits, 2))
				for at := len(p.Prompt) - 1; at < len(ids)-1; at++ {
					for _, x := range probabilities[at*testVocab : (at+1)*testVocab] {
						want -= x * math.Log(x)
					}
					positions++
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want /= float64(positions)
	for step := int64(1); step <= 2; step++ {
		m, err := tr.Step(t.Context(), pairs)
		if err != nil {
			t.Fatal(err)
		}
		if step == 1 && !(math.Abs(m.Entropy-want) <= 1e-5*want) {
			t.Errorf("passes of %d: the entropy is %g, want %g", micro, m.Entropy, want)
		}
		if m.NumTokens != step*tokens {
			t.Errorf("step %d: %d tokens are counted, want %d", step, m.NumTokens, step*tokens)
		}
	}
}

// TestSFTCountsTokens: the loss of an update on chosen texts alone is the mean over all their tokens, however the pairs
// are cut into passes, and so is the loss of a measurement.
func TestSFTCountsTokens(t *testing.T) {
	for _, micro := range []int{1, 3, 8} {
		tr := testTuner(t, testLoss(t, "sft", Params{Beta: 0.5}), 1e-3, micro)
		pairs := referenced(t, tr, testPairs(8, 5))
		sum, tokens := 0.0, 0
		for _, p := range pairs {
			sum -= p.Reference[0] // a new adapter changes nothing
			tokens += len(p.Chosen)
		}
		want := sum / float64(tokens)
		e, err := tr.Evaluate(t.Context(), pairs)
		if err != nil || math.Abs(e.Loss-want) > 1e-6*want {
			t.Errorf("passes of %d: the measured loss is %g, %v, want %g", micro, e.Loss, err, want)
		}
		if m, err := tr.Step(t.Context(), pairs); err != nil || math.Abs(m.Loss-want) > 1e-6*want {
			t.Errorf("passes of %d: the loss of the step is %g, %v, want %g", micro, m.Loss, err, want)
		}
	}
}
