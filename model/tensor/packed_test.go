package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// packable returns the types whose products may have packed weights here.
func packable() []DType {
	return slices.DeleteFunc([]DType{Float32, BFloat16}, func(d DType) bool { return !CanPack(d) })
}

var activations = map[Activation]func(float64) float64{
	NoActivation: func(x float64) float64 { return x },
	ActGeluTanh:  func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
	ActGelu:      func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) },
	ActRelu:      func(x float64) float64 { return max(x, 0) },
}

func TestPackedProduct(t *testing.T) {
	if len(packable()) == 0 {
		t.Skip("this CPU has no products with packed weights")
	}
	random := rand.New(rand.NewPCG(1, 2))
	fill := func(n int64) []float32 { return normals(random, int(n), 1) }
	for _, shape := range [][3]int64{{1, 5, 3}, {16, 32, 32}, {17, 64, 48}, {33, 100, 70}, {70, 768, 300},
		{5, 3072, 33}} {
		rows, in, out := shape[0], shape[1], shape[2]
		x, w, bias, residual := fill(rows*in), fill(in*out), fill(out), fill(rows*out)
		for _, inOut := range []bool{true, false} {
			for _, d := range packable() {
				err := Run(func(s *Scope) error {
					xt, wt := s.To(s.FromFloat32(x, rows, in), d), s.To(s.FromFloat32(w, in, out), d)
					given := wt
					if !inOut {
						given = s.Contiguous(s.Transpose(wt, 0, 1))
					}
					p := s.Pack(given, inOut, false, d)
					defer p.Free()
					r := s.FromFloat32(residual, rows, out)
					plain := s.Float64s(p.Product(s, xt, Epilogue{DType: Float32}))
					alone := s.Float64s(p.Product(s, s.Narrow(xt, 0, rows-1, 1), Epilogue{DType: Float32}))
					if !slices.Equal(alone, plain[(rows-1)*out:]) {
						t.Fatalf("%v %v: the last row's products depend on the other rows", shape, d)
					}
					// Exact products of the rounded factors, and the error that float32 sums may have.
					exact := s.Float64s(s.MatMul(s.To(xt, Float64), s.To(wt, Float64)))
					size := s.Float64s(s.MatMul(s.Sqrt(s.Square(s.To(xt, Float64))), s.Sqrt(s.Square(s.To(wt, Float64)))))
					for i := range exact {
						if e := math.Abs(plain[i] - exact[i]); e > 4e-7*size[i] {
							t.Fatalf("%v %v, in·out %v: product %d is off by %g of %g", shape, d, inOut, i, e, size[i])
						}
					}
					for act, f := range activations {
						got := s.Float64s(p.Product(s, xt,
							Epilogue{Bias: s.FromFloat32(bias, out), Act: act, Residual: r, DType: Float32}))
						for i := range exact {
							y := f(exact[i]+float64(bias[int64(i)%out])) + float64(residual[i])
							if e := math.Abs(got[i] - y); !(e <= 2e-6*(1+size[i])) {
								t.Fatalf("%v %v: finished product %d with activation %v is %g, want %g", shape, d, i,
									act, got[i], y)
							}
						}
						if !CanPack(BFloat16) {
							continue
						}
						half := s.Float64s(p.Product(s, xt, Epilogue{Act: act, DType: BFloat16}))
						given := plain
						if act == ActGeluTanh { // of what training keeps
							given = s.Float64s(s.To(s.fromFloat64(plain, int64(len(plain))), BFloat16))
						}
						for i, y := range given {
							if e := math.Abs(half[i] - f(y)); !(e <= math.Abs(f(y))/256+2e-5*math.Abs(y)) {
								t.Fatalf("%v %v: product %d with activation %v is %g in bfloat16, want %g", shape, d, i,
									act, half[i], f(y))
							}
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestGatedProduct: a product whose halves gate each other is the plain product with SwiGLU behind it.
func TestGatedProduct(t *testing.T) {
	if len(packable()) == 0 {
		t.Skip("this CPU has no products with packed weights")
	}
	random := rand.New(rand.NewPCG(3, 4))
	fill := func(n int64) []float32 { return normals(random, int(n), 1) }
	for _, shape := range [][3]int64{{1, 5, 32}, {17, 64, 96}, {600, 100, 64}} {
		rows, in, out := shape[0], shape[1], shape[2]
		for _, d := range packable() {
			err := Run(func(s *Scope) error {
				x, w, bias := s.FromFloat32(fill(rows*in), rows, in), s.FromFloat32(fill(in*out), out,
					in), s.FromFloat32(fill(out), out)
				gated, plain := s.Pack(w, false, true, d), s.Pack(w, false, false, d)
				defer gated.Free()
				defer plain.Free()
				got := s.Float64s(gated.Product(s, x, Epilogue{Bias: bias, DType: Float32}))
				want := s.Float64s(s.SwiGLU(plain.Product(s, x, Epilogue{Bias: bias, DType: Float32})))
				if len(got) != len(want) {
					t.Fatalf("%v: %d values, want %d", shape, len(got), len(want))
				}
				for i := range want {
					if e := math.Abs(got[i] - want[i]); !(e <= 1e-6*(1+math.Abs(want[i]))) {
						t.Fatalf("%v %v: value %d is %g, want %g", shape, d, i, got[i], want[i])
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestScratch: a product of fewer rows needs no more memory, so that callers can ask once for the most rows.
func TestScratch(t *testing.T) {
	for _, d := range packable() {
		for _, in := range []int64{1, 64, 500, 768, 1000, 1536, 3072, 50257} {
			p := Packed{In: in, Out: 768, DType: d, planes: planesOf(d)}
			before := int64(0)
			for rows := int64(1); rows < 1200; rows++ {
				size := p.scratch(d, rows)
				if size < before {
					t.Fatalf("%v, %d inputs: %d rows need %d bytes, one less %d", d, in, rows, size, before)
				}
				before = size
			}
		}
	}
}

func benchmarkPacked(b *testing.B, d DType, packed bool, rows, in, out int64) {
	if packed && !CanPack(d) {
		b.Skip("this CPU has no such products")
	}
	SetThreads(1)
	defer SetThreads(0)
	err := Run(func(s *Scope) error {
		generator := rand.New(rand.NewPCG(5, 6))
		random := func(shape ...int64) Tensor { // ones would take less power, and time, than weights do
			x := make([]float32, shape[0]*shape[1])
			for i := range x {
				x[i] = float32(generator.NormFloat64())
			}
			return s.To(s.FromFloat32(x, shape...), d)
		}
		x, w := random(rows, in), random(in, out)
		var p *Packed
		if packed {
			p = s.Pack(w, true, false, d)
			defer p.Free()
		}
		for b.Loop() {
			s.Do(func() {
				if packed {
					p.Product(s, x, Epilogue{})
				} else {
					s.MatMul(x, w)
				}
			})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(2*float64(rows*in*out)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// The sizes of a decoding step of GPT-2 small with 200 sequences.
func BenchmarkProduct(b *testing.B) {
	for _, k := range []struct {
		name    string
		in, out int64
	}{{"qkv", 768, 2304}, {"up", 768, 3072}, {"down", 3072, 768}, {"head", 768, 50257}} {
		for _, d := range []DType{Float32, BFloat16} {
			b.Run(k.name+"/"+d.String()+"/libtorch",
				func(b *testing.B) { benchmarkPacked(b, d, false, 200, k.in, k.out) })
			b.Run(k.name+"/"+d.String()+"/packed", func(b *testing.B) { benchmarkPacked(b, d, true, 200, k.in, k.out) })
		}
	}
}

// The sizes of preference training of GPT-2 small with the 330 tokens of a pair, forwards and backwards.
func BenchmarkTrainedProduct(b *testing.B) {
	for _, k := range [][2]int64{{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}, {2304, 768}} {
		for _, d := range []DType{Float32, BFloat16} {
			name := fmt.Sprintf("%dx%d/%v", k[0], k[1], d)
			b.Run(name+"/libtorch", func(b *testing.B) { benchmarkPacked(b, d, false, 330, k[0], k[1]) })
			b.Run(name+"/packed", func(b *testing.B) { benchmarkPacked(b, d, true, 330, k[0], k[1]) })
		}
	}
}

// The sizes of an encoder of 384 values with 1000 tokens.
func BenchmarkEncoderProduct(b *testing.B) {
	for _, k := range []struct {
		name    string
		in, out int64
	}{{"qkv", 384, 1152}, {"out", 384, 384}, {"up", 384, 1536}, {"down", 1536, 384}} {
		b.Run(k.name+"/libtorch", func(b *testing.B) { benchmarkPacked(b, BFloat16, false, 1000, k.in, k.out) })
		b.Run(k.name+"/packed", func(b *testing.B) { benchmarkPacked(b, BFloat16, true, 1000, k.in, k.out) })
	}
}
