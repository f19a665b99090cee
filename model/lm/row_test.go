package lm

import (
	"math"
	"testing"

	"popri/model/tensor"
)

// TestRowsBehindEachOther: rows that are behind each other have the log-probabilities and gradients that they have with
// padding, whatever their lengths, also where they hold several sequences and where blocks are computed again.
func TestRowsBehindEachOther(t *testing.T) {
	rows := func(lengths ...int) (rows []Row) {
		for i, n := range lengths {
			r := Row{}
			for k := range n {
				r.Tokens = append(r.Tokens, int32((7*k+11*i)%97))
			}
			rows = append(rows, r)
		}
		return rows
	}
	tokens := func(n int) (ids []int32) { return rows(n)[0].Tokens }
	pairs := []Row{NewRow(tokens(20), tokens(9), tokens(13)), NewRow(tokens(5), tokens(40), tokens(1)), {Tokens: tokens(7)}}
	for _, arch := range []string{"gpt2", "llama"} {
		c := small()[arch]
		c.Hidden, c.Heads, c.Dim, c.KVHeads = 64, 2, 32, 1
		if arch == "gpt2" {
			c.Dim, c.KVHeads = 0, 0
		}
		m := newSmall(t, c)
		params, err := m.Trainable()
		if err != nil {
			t.Fatal(err)
		}
		m.Compute = tensor.BFloat16
		behind := false
		for _, again := range []bool{false, true} {
			m.Recompute = again
			for _, list := range [][]Row{rows(50, 3, 20, 9), rows(1, 64, 2, 2, 2), rows(40, 40), rows(5), pairs} {
				err := tensor.Run(func(s *tensor.Scope) error {
					behind = behind || len(m.rowsInput(s, list).starts) > 0
					loss, grads := m.LossGradients(s, list, nil, params, m.Counted(list), Dropout{})
					var wantLoss float64
					want := make([][]float64, len(params))
					for i := range list { // a row alone has no rows before or behind it
						if m.Counted(list[i:i+1]) == 0 {
							continue
						}
						l, g := m.LossGradients(s, list[i:i+1], nil, params, m.Counted(list), Dropout{})
						wantLoss += l
						for k := range g {
							if want[k] == nil {
								want[k] = make([]float64, g[k].NumElements())
							}
							for n, x := range s.Float64s(g[k]) {
								want[k][n] += x
							}
						}
					}
					if math.Abs(loss-wantLoss) > 0.002*wantLoss {
						t.Errorf("%s, %d rows: the loss is %g, want %g", arch, len(list), loss, wantLoss)
					}
					for k, g := range grads {
						wrong, size := 0.0, 0.0
						for n, x := range s.Float64s(g) {
							wrong += (x - want[k][n]) * (x - want[k][n])
							size += want[k][n] * want[k][n]
						}
						if !(math.Sqrt(wrong) <= 0.03*math.Sqrt(size)+1e-4) {
							t.Errorf("%s, %d rows: the gradient of %s is off by %g of %g", arch, len(list), m.Names()[k],
								math.Sqrt(wrong), math.Sqrt(size))
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		err = tensor.Run(func(s *tensor.Scope) error {
			if can := s.CanAttendHeads(tensor.BFloat16, 32); behind != can {
				t.Errorf("rows lie behind each other: %v; attention takes them so: %v", behind, can)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
