package tensor

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// hidden is what drop.h decides, one element after the other.
func hidden(key uint64, row, column int, share float64) bool {
	z := key + uint64(row+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	x := uint32(column) + uint32(z)
	x = (x^x>>16)*0x7feb352d + uint32(z>>32)
	x = (x ^ x>>15) * 0x846ca68b
	return float64(x^x>>16) < math.Round(share*(1<<32))
}

// TestDrop: the kernel, for widths that fill the lanes and not, and the library's operations hide what the definition
// says, a part by its own key and its own rows.
func TestDrop(t *testing.T) {
	keys := []uint64{3, 1<<63 + 9}
	for _, width := range []int64{1, 15, 64, 75} {
		for _, d := range []DType{Float32, BFloat16} {
			for _, share := range []float64{0.1, 0.5, 0.999} {
				results := both(t, func(s *Scope) []float64 {
					return s.Float64s(s.Drop(s.Full(d, 2, 2, 3, 5, width), share, keys...))
				})
				for _, got := range results {
					for i, x := range got {
						row, column := i/int(width), i%int(width)
						want := 2 / (1 - share)
						if hidden(keys[row/15], row%15, column, share) {
							want = 0
						}
						if math.Abs(x-want) > 0.004*want {
							t.Fatalf("width %d, %v, share %g: element %d is %g, want %g", width, d, share, i, x, want)
						}
					}
				}
			}
		}
	}
}

// TestDropShare: the share, that of neighbours in a row and in a column, and that of two keys are those of independent
// draws.
func TestDropShare(t *testing.T) {
	const rows, width = 400, 500
	for _, share := range []float64{0.1, 0.5} {
		var draws [2][]float64
		err := Run(func(s *Scope) error {
			for i := range draws {
				draws[i] = s.Float64s(s.Drop(s.Full(Float32, 1, rows, width), share, uint64(i)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, n int, want float64, both func(i int) bool) {
			t.Helper()
			hits := 0
			for i := range n {
				if both(i) {
					hits++
				}
			}
			// Five standard deviations.
			if got := float64(hits) / float64(n); math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/float64(n)) {
				t.Errorf("share %g: %s %g, want %g", share, what, got, want)
			}
		}
		x, y := draws[0], draws[1]
		near("hidden", len(x), share, func(i int) bool { return x[i] == 0 })
		near("hidden with the next", len(x)-1, share*share, func(i int) bool { return x[i] == 0 && x[i+1] == 0 })
		near("hidden with the one below", len(x)-width, share*share,
			func(i int) bool { return x[i] == 0 && x[i+width] == 0 })
		near("hidden by both keys", len(x), share*share, func(i int) bool { return x[i] == 0 && y[i] == 0 })
	}
}

// trained is the outputs of attention and its gradients.
type trained struct{ y, dq, dk, dv []float64 }

// attended runs attention f on heads [1, n, tokens, 32], bfloat16 numbers of type d.
func attended(s *Scope, d DType, heads, kv, tokens int64, f func(q, k, v Tensor) Tensor) trained {
	var in []Tensor
	for i, n := range []int64{heads, kv, kv} {
		x := s.To(draws32(s, BFloat16, uint64(i), 1, n, tokens, 32), d)
		s.RequireGrad(x, true)
		in = append(in, x)
	}
	var y Tensor
	var grads []Tensor
	s.WithGrad(func() {
		y = f(in[0], in[1], in[2])
		dy := s.To(draws32(s, BFloat16, 5, 1, tokens, heads*32), d)
		grads = s.Backward(s.Sum(s.To(s.Mul(y, dy), Float32)), in)
	})
	return trained{s.Float64s(y), s.Float64s(grads[0]), s.Float64s(grads[1]), s.Float64s(grads[2])}
}

func (got trained) near(t *testing.T, want trained, tolerance float64) {
	t.Helper()
	for i, pair := range [][2][]float64{{got.y, want.y}, {got.dq, want.dq}, {got.dk, want.dk}, {got.dv, want.dv}} {
		wrong, size := 0.0, 0.0
		for k, w := range pair[1] {
			wrong += (pair[0][k] - w) * (pair[0][k] - w)
			size += w * w
		}
		if !(math.Sqrt(wrong) <= tolerance*math.Sqrt(size)) || size == 0 {
			t.Errorf("%s is off by %.2g %% of its size", []string{"y", "dq", "dk", "dv"}[i], 100*math.Sqrt(wrong/size))
		}
	}
}

// TestAttentionDropout: attention without scores in memory hides what [Scope.Drop] hides of their shares.
func TestAttentionDropout(t *testing.T) {
	skipOnDevice(t)
	if kernels != "" || !CanPack(BFloat16) {
		t.Skip("this CPU has no products of bfloat16, or they are off")
	}
	const heads, kv, tokens, scale = 4, 2, 70, 0.2
	drop := Dropout{0.3, 1<<40 + 3}
	err := Run(func(s *Scope) error {
		mask := s.FromFloat32(sees(tokens, 20, 50), tokens, tokens)
		got := attended(s, BFloat16, heads, kv, tokens, func(q, k, v Tensor) Tensor {
			return s.Attend(q, k, v, s.To(mask, BFloat16), scale, drop)
		})
		want := attended(s, Float32, heads, kv, tokens, func(q, k, v Tensor) Tensor {
			scores := s.MatMul(s.Reshape(q, 1, kv, heads/kv*tokens, 32), s.Transpose(k, 2, 3))
			shares := s.Softmax(s.Add(s.MulScalar(s.View(scores, 1, heads, tokens, tokens), scale), mask), 3)
			shares = s.Drop(shares, drop.Share, drop.Key)
			y := s.View(s.MatMul(s.View(shares, 1, kv, -1, tokens), v), 1, heads, tokens, 32)
			return s.Reshape(s.Transpose(y, 1, 2), 1, tokens, heads*32)
		})
		got.near(t, want, 0.01)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAttendRows: sequences behind each other are attended as each by itself, on any number of threads.
func TestAttendRows(t *testing.T) {
	skipOnDevice(t)
	if kernels != "" || !CanPack(BFloat16) {
		t.Skip("this CPU has no products of bfloat16, or they are off")
	}
	defer SetThreads(Threads())
	const heads, kv, scale = 4, 2, 0.2
	starts := []int64{0, 33, 34, 98, 130}
	var first trained
	for _, threads := range []int{1, 3} {
		SetThreads(threads)
		err := Run(func(s *Scope) error {
			mask := s.To(s.FromFloat32(sees(70, 0, 0), 70, 70), BFloat16)
			got := attended(s, BFloat16, heads, kv, 130, func(q, k, v Tensor) Tensor {
				return s.AttendRows(q, k, v, mask, starts, scale, Dropout{})
			})
			want := attended(s, BFloat16, heads, kv, 130, func(q, k, v Tensor) Tensor {
				var parts []Tensor
				for i, from := range starts[:4] {
					n := starts[i+1] - from
					of := func(x Tensor) Tensor { return s.Narrow(x, 2, from, n) }
					sight := s.Narrow(s.Narrow(mask, 0, 0, n), 1, 0, n)
					parts = append(parts, s.Attend(of(q), of(k), of(v), sight, scale, Dropout{}))
				}
				return s.Cat(1, parts...)
			})
			got.near(t, want, 1e-6)
			if first.y == nil {
				first = got
			} else if !slices.Equal(first.y, got.y) || !slices.Equal(first.dk, got.dk) {
				t.Error("the bits depend on the threads")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range [][]int64{{0, 130}, {0, 70, 131}, {1, 66, 130}, {0, 66, 66, 130}, {0}} {
		err := Run(func(s *Scope) error {
			x, k := draws32(s, BFloat16, 1, 1, heads, 130, 32), draws32(s, BFloat16, 2, 1, kv, 130, 32)
			s.AttendRows(x, k, k, s.Zeros(BFloat16, 70, 70), wrong, scale, Dropout{})
			return nil
		})
		if err == nil {
			t.Error(fmt.Sprint("sequences at ", wrong, " of 130 tokens are taken"))
		}
	}
}
