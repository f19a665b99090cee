package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// bytesOf rounds x to bytes as [Scope.Pack8] says, and returns them with their scale.
func bytesOf(x []float32) (q []float64, scale float64) {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	q = make([]float64, len(x))
	for i, v := range x {
		if most > 0 {
			q[i] = math.RoundToEven(float64(v * float32(127/float32(most))))
		}
	}
	return q, most / 127
}

// A product of bytes is the product of the rounded factors, whatever the shape, and what comes behind it as for other
// types.
func TestPackedBytes(t *testing.T) {
	if !CanPack8() {
		t.Skip("this CPU has no products of bytes that would be used")
	}
	random := rand.New(rand.NewPCG(5, 6))
	for _, shape := range [][3]int64{{1, 5, 3}, {12, 64, 32}, {17, 65, 48}, {33, 100, 70}, {900, 576, 96},
		{5, 3072, 33}} {
		rows, in, out := shape[0], shape[1], shape[2]
		x, w, bias := normals(random, int(rows*in), 3), normals(random, int(in*out), 0.02), normals(random, int(out), 1)
		clear(x[:in]) // a row of zeros
		for _, d := range []DType{Float32, BFloat16} {
			err := Run(func(s *Scope) error {
				xt := s.To(s.FromFloat32(x, rows, in), d)
				p := s.Pack8(s.FromFloat32(w, out, in), false, false)
				defer p.Free()
				turned := s.Pack8(s.Transpose(s.FromFloat32(w, out, in), 0, 1), true, false)
				defer turned.Free()
				got := s.Float64s(p.Product(s, xt, Epilogue{Bias: s.FromFloat32(bias, out), DType: Float32}))
				same := s.Float64s(turned.Product(s, xt, Epilogue{Bias: s.FromFloat32(bias, out), DType: Float32}))
				given := s.Float32s(s.To(xt, Float32))
				for r := range rows {
					q, scale := bytesOf(given[r*in:][:in])
					for o := range out {
						weights, column := bytesOf(w[o*in:][:in])
						sum := 0.0
						for k := range q {
							sum += q[k] * weights[k]
						}
						want, i := sum*scale*column+float64(bias[o]), r*out+o
						if e := math.Abs(got[i] - want); !(e <= 1e-6*(1+math.Abs(want))) ||
							math.Abs(same[i]-got[i]) > 0 {
							t.Fatalf("%v %v: product %d is %g and %g, want %g", shape, d, i, got[i], same[i], want)
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

// Gated products of bytes are the plain ones with SwiGLU behind them, and a row that is not finite stays one.
func TestPackedBytesGated(t *testing.T) {
	if !CanPack8() {
		t.Skip("this CPU has no products of bytes that would be used")
	}
	random := rand.New(rand.NewPCG(7, 8))
	err := Run(func(s *Scope) error {
		v := normals(random, 30*100, 1)
		v[5], v[100] = float32(math.NaN()), float32(math.Inf(1))
		x, w := s.FromFloat32(v, 30, 100), s.FromFloat32(normals(random, 64*100, 0.1), 64, 100)
		gated, plain := s.Pack8(w, false, true), s.Pack8(w, false, false)
		defer gated.Free()
		defer plain.Free()
		got := s.Float64s(gated.Product(s, x, Epilogue{DType: Float32}))
		want := s.Float64s(s.SwiGLU(plain.Product(s, x, Epilogue{DType: Float32})))
		for i := range want {
			if i < 2*32 {
				if !math.IsNaN(got[i]) {
					t.Fatalf("value %d of a row that is not finite is %g", i, got[i])
				}
			} else if e := math.Abs(got[i] - want[i]); !(e <= 1e-6*(1+math.Abs(want[i]))) {
				t.Fatalf("value %d is %g, want %g", i, got[i], want[i])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Products of 240 rows with weights of SmolLM2-135M's shapes, on one thread: in bfloat16 and in bytes.
func BenchmarkPackedBytes(b *testing.B) {
	if !CanPack8() {
		b.Skip("this CPU has no products of bytes that would be used")
	}
	for _, shape := range [][2]int64{{576, 960}, {576, 3072}, {1536, 576}} {
		for _, kind := range []string{"bfloat16", "bytes"} {
			b.Run(fmt.Sprintf("%d×%d %s", shape[0], shape[1], kind), func(b *testing.B) {
				err := Parallel(1, func(_ int, s *Scope) error {
					x, w := s.Full(BFloat16, 0.5, 240, shape[0]), s.Full(BFloat16, 0.1, shape[1], shape[0])
					p := s.Pack(w, false, false, BFloat16)
					if kind == "bytes" {
						p.Free()
						p = s.Pack8(w, false, false)
					}
					defer p.Free()
					for b.Loop() {
						s.Do(func() { p.Product(s, x, Epilogue{}) })
					}
					b.ReportMetric(2*240*float64(shape[0]*shape[1])*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
