package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
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

// TestTrainedAttention compares outputs and gradients with those of the library's operations in float32, of the same
// rounded inputs.
func TestTrainedAttention(t *testing.T) {
	skipOnDevice(t)
	if kernels != "" || !CanPack(BFloat16) {
		t.Skip("this CPU has no products of bfloat16, or they are off")
	}
	for _, c := range []struct {
		batch, tokens, heads, kv, dim int
		mask                          [][]float32 // of each batch, or of all
	}{
		{1, 1, 1, 1, 32, [][]float32{sees(1, 0, 0)}},
		{2, 5, 2, 1, 64, [][]float32{sees(5, 0, 0)}},
		{1, 32, 3, 3, 64, [][]float32{sees(32, 10, 20)}},
		{2, 33, 4, 2, 32, [][]float32{sees(33, 0, 0), sees(33, 7, 15)}},
		{1, 200, 6, 2, 64, [][]float32{sees(200, 70, 130)}},
		{2, 97, 2, 2, 96, [][]float32{sees(97, 0, 0), sees(97, 3, 65)}},
		{1, 70, 2, 1, 64, [][]float32{make([]float32, 70*70)}},
	} {
		t.Run(fmt.Sprintf("%d×%d tokens, %d of %d heads of %d", c.batch, c.tokens, c.kv, c.heads, c.dim),
			func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 9))
				scale := 1 / math.Sqrt(float64(c.dim))
				type result struct{ y, dq, dk, dv []float64 }
				b, n, h, kv, d := int64(c.batch), int64(c.tokens), int64(c.heads), int64(c.kv), int64(c.dim)
				given := [][]float32{normals(random, c.batch*c.tokens*c.heads*c.dim, 1.5),
					normals(random, c.batch*c.tokens*c.kv*c.dim, 1.5), normals(random, c.batch*c.tokens*c.kv*c.dim, 1)}
				slopes := normals(random, len(given[0]), 1)
				var flat []float32
				for _, m := range c.mask {
					flat = append(flat, m...)
				}
				attend := func(s *Scope, dtype DType) result {
					var in []Tensor
					for i, heads := range []int64{h, kv, kv} {
						x := s.To(s.To(s.FromFloat32(given[i], b, heads, n, d), BFloat16), dtype)
						s.RequireGrad(x, true)
						in = append(in, x)
					}
					mask := s.To(s.FromFloat32(flat, int64(len(c.mask)), 1, n, n), dtype)
					dy := s.To(s.To(s.FromFloat32(slopes, b, n, h*d), BFloat16), dtype)
					var y Tensor
					var grads []Tensor
					s.WithGrad(func() {
						if dtype == BFloat16 {
							y = s.Attend(in[0], in[1], in[2], mask, scale, Dropout{})
						} else {
							q := s.Reshape(in[0], b, kv, h/kv*n, d)
							scores := s.View(s.MatMul(q, s.Transpose(in[1], 2, 3)), b, h, n, n)
							shares := s.Softmax(s.Add(s.MulScalar(scores, scale), mask), 3)
							y = s.View(s.MatMul(s.View(shares, b, kv, h/kv*n, n), in[2]), b, h, n, d)
							y = s.Reshape(s.Transpose(y, 1, 2), b, n, h*d)
						}
						grads = s.Backward(s.Sum(s.To(s.Mul(y, dy), Float32)), in)
					})
					return result{s.Float64s(y), s.Float64s(grads[0]), s.Float64s(grads[1]), s.Float64s(grads[2])}
				}
				err := Run(func(s *Scope) error {
					got, want := attend(s, BFloat16), attend(s, Float32)
					for _, part := range []struct {
						name      string
						got, want []float64
					}{{"y", got.y, want.y}, {"dq", got.dq, want.dq}, {"dk", got.dk, want.dk}, {"dv", got.dv, want.dv}} {
						wrong, size := 0.0, 0.0
						for i, w := range part.want {
							wrong += (part.got[i] - w) * (part.got[i] - w)
							size += w * w
							if !(math.Abs(part.got[i]-w) <= 0.06*(1+math.Abs(w))) {
								t.Fatalf("%s: value %d is %g, want %g", part.name, i, part.got[i], w)
							}
						}
						if !(wrong <= 0.01*0.01*size+1e-9) {
							t.Errorf("%s is off by %.2g %% of its size", part.name, 100*math.Sqrt(wrong/size))
						}
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
	skipOnDevice(t)
	if kernels != "" || !CanPack(BFloat16) {
		t.Skip("this CPU has no products of bfloat16, or they are off")
	}
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

func BenchmarkTrainedAttention(b *testing.B) {
	if kernels != "" || !CanPack(BFloat16) {
		b.Skip("this CPU has no products of bfloat16, or they are off")
	}
	for _, n := range []int64{64, 320, 2048} {
		for _, fused := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/%v", n, fused), func(b *testing.B) {
				_ = runOn(1, func(s *Scope) error {
					q, k, v := draws32(s, BFloat16, 1, 1, 9, n, 64), draws32(s, BFloat16, 2, 1, 3, n, 64),
						draws32(s, BFloat16, 3, 1, 3, n, 64)
					mask := s.To(s.FromFloat32(sees(int(n), int(n)/2, int(n)*3/4), n, n), BFloat16)
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
									shares := s.MaskedSoftmax(s.View(scores, 1, 9, n, n), mask, 0.125)
									y = s.View(s.MatMul(s.View(shares, 1, 3, 3*n, n), v), 1, 9, n, 64)
									y = s.Reshape(s.Transpose(y, 1, 2), 1, n, 9*64)
								}
								s.Backward(s.Sum(y), []Tensor{q, k, v})
							})
						})
					}
					return nil
				})
			})
		}
	}
}
