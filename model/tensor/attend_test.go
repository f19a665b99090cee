package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sees makes a mask [n, n]: causal, and tokens of the second branch, if there is one, do not see the first.
func sees(tokens, shared, branch int) []float32 {
	mask := make([]float32, tokens*tokens)
	for t := range tokens {
		for u := range tokens {
			if u > t || branch > 0 && t >= branch && u >= shared && u < branch {
				mask[t*tokens+u] = -1e30
			}
		}
	}
	return mask
}

// skipWithoutAttend skips a test of [Scope.Attend] where there is none.
func skipWithoutAttend(t *testing.T) {
	t.Helper()
	skipOnDevice(t)
	if kernels != "" || !CanPack(BFloat16) {
		t.Skip("this CPU has no products of bfloat16, or they are off")
	}
}

// accuracies of attention in the types that it takes on some CPUs: of the sizes of outputs and gradients, and of each
// value.
var accuracies = []struct {
	DType
	size, each float64
}{{BFloat16, 0.01, 0.06}, {Float32, 2e-6, 2e-5}}

// heads is the size of a test's attention.
type heads struct{ batch, tokens, heads, kv, dim int64 }

// trained is the outputs of attention and its gradients.
type trained struct{ y, dq, dk, dv []float64 }

// attended is f and its gradients in type d, of the same random numbers of bfloat16.
func (c heads) attended(s *Scope, d DType, f func(q, k, v Tensor) Tensor) trained {
	random := rand.New(rand.NewPCG(1, 9))
	draw := func(of int64, scale float64) []float32 { return normals(random, int(c.batch*c.tokens*of*c.dim), scale) }
	tensor := func(v []float32, shape ...int64) Tensor { return s.To(s.To(s.FromFloat32(v, shape...), BFloat16), d) }
	var in []Tensor
	for i, n := range []int64{c.heads, c.kv, c.kv} {
		x := tensor(draw(n, []float64{1.5, 1.5, 1}[i]), c.batch, n, c.tokens, c.dim)
		s.RequireGrad(x, true)
		in = append(in, x)
	}
	dy := tensor(draw(c.heads, 1), c.batch, c.tokens, c.heads*c.dim)
	var y Tensor
	var grads []Tensor
	s.WithGrad(func() {
		y = f(in[0], in[1], in[2])
		grads = s.Backward(s.Sum(s.To(s.Mul(y, dy), Float32)), in)
	})
	return trained{s.Float64s(y), s.Float64s(grads[0]), s.Float64s(grads[1]), s.Float64s(grads[2])}
}

// byOperations is [Scope.Attend] by the library's operations, for these heads.
func (c heads) byOperations(s *Scope, q, k, v, mask Tensor, scale float64, drop Dropout) Tensor {
	scores := s.MatMul(s.Reshape(q, c.batch, c.kv, -1, c.dim), s.Transpose(k, 2, 3))
	scores = s.View(scores, c.batch, c.heads, c.tokens, c.tokens)
	probabilities := s.Drop(s.Softmax(s.Add(s.MulScalar(scores, scale), mask), 3), drop)
	y := s.MatMul(s.View(probabilities, c.batch, c.kv, -1, c.tokens), v)
	y = s.View(y, c.batch, c.heads, c.tokens, c.dim)
	return s.Reshape(s.Transpose(y, 1, 2), c.batch, c.tokens, c.heads*c.dim)
}

// near compares the size of the difference with the size of what is wanted, and each value. One token alone, which
// gives all its weight to itself, has no gradients of queries and keys; rounding leaves some.
func (c heads) near(t *testing.T, got, want trained, tolerance, each float64) {
	t.Helper()
	for i, pair := range [][2][]float64{{got.y, want.y}, {got.dq, want.dq}, {got.dk, want.dk}, {got.dv, want.dv}} {
		name, wrong, size := []string{"y", "dq", "dk", "dv"}[i], 0.0, 0.0
		for k, w := range pair[1] {
			wrong += (pair[0][k] - w) * (pair[0][k] - w)
			size += w * w
			if !(math.Abs(pair[0][k]-w) <= each*(1+math.Abs(w))) {
				t.Fatalf("%s: value %d is %g, want %g", name, k, pair[0][k], w)
			}
		}
		limit := tolerance * tolerance * size
		if c.tokens == 1 {
			limit += 1e-9
		} else if size == 0 {
			t.Errorf("%s is zero", name)
		}
		if !(wrong <= limit) {
			t.Errorf("%s is off by %.2g %% of its size", name, 100*math.Sqrt(wrong/size))
		}
	}
}

// TestTrainedAttention compares outputs and gradients with the library's operations in float32 on the same rounded
// inputs.
func TestTrainedAttention(t *testing.T) {
	skipWithoutAttend(t)
	for _, c := range []struct {
		heads
		mask [][]float32 // of each batch, or of all
	}{
		{heads{1, 1, 1, 1, 32}, [][]float32{sees(1, 0, 0)}},
		{heads{2, 5, 2, 1, 64}, [][]float32{sees(5, 0, 0)}},
		{heads{1, 32, 3, 3, 64}, [][]float32{sees(32, 10, 20)}},
		{heads{2, 33, 4, 2, 32}, [][]float32{sees(33, 0, 0), sees(33, 7, 15)}},
		{heads{1, 200, 6, 2, 64}, [][]float32{sees(200, 70, 130)}},
		{heads{2, 97, 2, 2, 96}, [][]float32{sees(97, 0, 0), sees(97, 3, 65)}},
		{heads{1, 70, 2, 1, 64}, [][]float32{make([]float32, 70*70)}},
	} {
		t.Run(fmt.Sprintf("%d×%d tokens, %d of %d heads of %d", c.batch, c.tokens, c.kv, c.heads.heads, c.dim),
			func(t *testing.T) {
				scale := 1 / math.Sqrt(float64(c.dim))
				var flat []float32
				for _, m := range c.mask {
					flat = append(flat, m...)
				}
				err := Run(func(s *Scope) error {
					mask := s.FromFloat32(flat, int64(len(c.mask)), 1, c.tokens, c.tokens)
					want := c.attended(s, Float32, func(q, k, v Tensor) Tensor {
						return c.byOperations(s, q, k, v, mask, scale, Dropout{})
					})
					for _, a := range accuracies {
						if !s.CanAttendHeads(a.DType, c.dim) {
							continue
						}
						got := c.attended(s, a.DType, func(q, k, v Tensor) Tensor {
							return s.Attend(q, k, v, s.To(mask, BFloat16), scale, Dropout{})
						})
						c.near(t, got, want, a.size, a.each)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			})
	}
}

// TestTrainedAttentionThreads: the bits do not depend on the threads.
func TestTrainedAttentionThreads(t *testing.T) {
	skipWithoutAttend(t)
	defer SetThreads(Threads())
	var results [2][]float64
	for i, threads := range []int{1, 3} {
		SetThreads(threads)
		err := Run(func(s *Scope) error {
			q, k, v := draws32(s, BFloat16, 1, 2, 6, 90, 64), draws32(s, BFloat16, 2, 2, 3, 90, 64),
				draws32(s, BFloat16, 3, 2, 3, 90, 64)
			results[i] = s.Float64s(s.Attend(q, k, v, s.To(s.FromFloat32(sees(90, 20, 50), 90, 90), BFloat16), 0.125,
				Dropout{}))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, x := range results[0] {
		if x != results[1][i] {
			t.Fatalf("value %d is %g with one thread, %g with three", i, x, results[1][i])
		}
	}
}

// TestAttentionDropout: attention without scores in memory hides what [Scope.Drop] hides of their probabilities.
func TestAttentionDropout(t *testing.T) {
	skipWithoutAttend(t)
	const tokens, scale = 70, 0.2
	c := heads{1, tokens, 4, 2, 32}
	drop := Dropout{0.3, 1<<40 + 3}
	err := Run(func(s *Scope) error {
		mask := s.FromFloat32(sees(tokens, 20, 50), tokens, tokens)
		want := c.attended(s, Float32, func(q, k, v Tensor) Tensor {
			return c.byOperations(s, q, k, v, mask, scale, drop)
		})
		for _, a := range accuracies {
			if !s.CanAttendHeads(a.DType, c.dim) {
				continue
			}
			got := c.attended(s, a.DType, func(q, k, v Tensor) Tensor {
				return s.Attend(q, k, v, s.To(mask, BFloat16), scale, drop)
			})
			c.near(t, got, want, a.size, a.each)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAttendRows: sequences behind each other are attended as each by itself, on any number of threads, with one mask
// and with a mask for each.
func TestAttendRows(t *testing.T) {
	skipWithoutAttend(t)
	defer SetThreads(Threads())
	c := heads{1, 130, 4, 2, 32}
	for _, masks := range [][][]float32{{sees(70, 0, 0)},
		{sees(70, 3, 20), sees(70, 0, 0), sees(70, 30, 40), sees(70, 1, 2)}} {
		for _, a := range accuracies {
			var first trained
			for _, threads := range []int{1, 3} {
				SetThreads(threads)
				got := c.behindEachOther(t, a.DType, masks)
				if first.y == nil {
					first = got
				} else if !slices.Equal(first.y, got.y) || !slices.Equal(first.dk, got.dk) {
					t.Error("the bits depend on the threads")
				}
			}
		}
	}
	for _, wrong := range []struct {
		starts []int64
		masks  int64
	}{{[]int64{0, 130}, 1}, {[]int64{0, 70, 131}, 1}, {[]int64{1, 66, 130}, 1}, {[]int64{0, 66, 66, 130}, 1},
		{[]int64{0}, 1}, {[]int64{0, 60, 130}, 3}} {
		err := Run(func(s *Scope) error {
			x, k := draws32(s, BFloat16, 1, 1, 4, 130, 32), draws32(s, BFloat16, 2, 1, 2, 130, 32)
			s.AttendRows(x, k, k, s.Zeros(BFloat16, wrong.masks, 1, 70, 70), wrong.starts, 0.2, Dropout{})
			return nil
		})
		if err == nil {
			t.Error(fmt.Sprint("sequences at ", wrong.starts, " of 130 tokens are taken, with ", wrong.masks, " masks"))
		}
	}
}

// behindEachOther is [Scope.AttendRows] of four sequences, with one mask or one for each, after a comparison with
// [Scope.Attend] of each by itself.
func (c heads) behindEachOther(t *testing.T, d DType, masks [][]float32) (got trained) {
	t.Helper()
	const scale = 0.2
	starts := []int64{0, 33, 34, 98, 130}
	err := Run(func(s *Scope) error {
		if !s.CanAttendHeads(d, c.dim) {
			return nil
		}
		n := int64(len(masks))
		mask := s.To(s.FromFloat32(slices.Concat(masks...), n, 1, 70, 70), BFloat16)
		got = c.attended(s, d, func(q, k, v Tensor) Tensor {
			return s.AttendRows(q, k, v, mask, starts, scale, Dropout{})
		})
		want := c.attended(s, d, func(q, k, v Tensor) Tensor {
			var parts []Tensor
			for i, from := range starts[:4] {
				tokens := starts[i+1] - from
				of := func(x Tensor) Tensor { return s.Narrow(x, 2, from, tokens) }
				own := s.Reshape(s.Narrow(mask, 0, int64(i)%n, 1), 70, 70)
				sight := s.Narrow(s.Narrow(own, 0, 0, tokens), 1, 0, tokens)
				parts = append(parts, s.Attend(of(q), of(k), of(v), sight, scale, Dropout{}))
			}
			return s.Cat(1, parts...)
		})
		c.near(t, got, want, 1e-6, 1e-6)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func BenchmarkTrainedAttention(b *testing.B) {
	if kernels != "" || !CanPack(BFloat16) {
		b.Skip("this CPU has no products of bfloat16, or they are off")
	}
	for _, d := range []DType{Float32, BFloat16} {
		for _, n := range []int64{64, 320, 2048} {
			for _, fused := range []bool{true, false} {
				b.Run(fmt.Sprintf("%v/%d/%v", d, n, fused), func(b *testing.B) { benchmarkTrained(b, d, n, fused) })
			}
		}
	}
}

func benchmarkTrained(b *testing.B, d DType, n int64, fused bool) {
	_ = runOn(1, func(s *Scope) error {
		q, k, v := draws32(s, d, 1, 1, 9, n, 64), draws32(s, d, 2, 1, 3, n, 64), draws32(s, d, 3, 1, 3, n, 64)
		mask := s.To(s.FromFloat32(sees(int(n), int(n)/2, int(n)*3/4), n, n), BFloat16)
		wide := s.To(mask, d)
		for _, x := range []Tensor{q, k, v} {
			s.RequireGrad(x, true)
		}
		for b.Loop() {
			s.Do(func() {
				s.WithGrad(func() {
					var y Tensor
					if fused {
						y = s.Attend(q, k, v, mask, 0.125, Dropout{})
					} else {
						scores := s.MatMul(s.Reshape(q, 1, 3, 3*n, 64), s.Transpose(k, 2, 3))
						probabilities := s.MaskedSoftmax(s.View(scores, 1, 9, n, n), wide, 0.125)
						y = s.View(s.MatMul(s.View(probabilities, 1, 3, 3*n, n), v), 1, 9, n, 64)
						y = s.Reshape(s.Transpose(y, 1, 2), 1, n, 9*64)
					}
					s.Backward(s.Sum(y), []Tensor{q, k, v})
				})
			})
		}
		return nil
	})
}
