package lm

import (
	"math"
	"testing"

	"popri/model/tensor"
)

// The chance that two draws are the same is the sum of the squares of the probabilities.
func TestLogSumSquares(t *testing.T) {
	m := newSmall(t, small()["gpt2"])
	tokens := []int32{3, 1, 4, 1, 5, 9, 2, 6}
	err := tensor.Run(func(s *tensor.Scope) error {
		sc := m.Score(s, []Row{{Tokens: tokens}}, nil, false)
		ids := make([]int64, len(tokens))
		for i, id := range tokens {
			ids[i] = int64(id)
		}
		p := s.Float32s(s.Softmax(m.Logits(s, m.Hidden(s, Input{IDs: s.FromInt64(ids, 1, int64(len(ids)))}, nil)), -1))
		got := sc.LogSumSquares(s)
		if len(got) != len(tokens)-1 {
			t.Fatalf("%d values for %d tokens", len(got), len(tokens)-1)
		}
		for i, x := range got {
			sum := 0.0
			for _, v := range p[i*m.Config.Vocab : (i+1)*m.Config.Vocab] {
				sum += float64(v) * float64(v)
			}
			if math.Abs(x-math.Log(sum)) > 1e-4 {
				t.Errorf("token %d: %g, want %g", i+1, x, math.Log(sum))
			}
		}
		if none := m.Score(s, []Row{{Tokens: tokens[:1]}}, nil, false).LogSumSquares(s); none != nil {
			t.Errorf("no token to predict gives %v", none)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
