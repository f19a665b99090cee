package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"popri/testkit/tensortest"
)

func TestTruncation(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var c truncation
	for trial := range 400 {
		row := make([]float32, 1+random.IntN(300))
		spread := math.Exp(4 * random.NormFloat64())
		for i := range row {
			row[i] = float32(spread * random.NormFloat64())
			if trial%5 == 0 {
				row[i] = float32(random.IntN(4)) // many ties
			}
			if trial%7 == 0 && i > 0 && random.IntN(3) == 0 {
				row[i] = float32(math.Inf(-1))
			}
		}
		k := random.IntN(len(row) + 3)
		want := tensortest.SortedCut(row, k, 1, 1)
		got := append([]float32{}, row...)
		c.keep(got, k)
		for i := range row {
			kept := got[i] == row[i]
			if kept != (want[i] || math.IsInf(float64(row[i]), -1)) {
				t.Fatalf("trial %d, k %d: id %d (%g) kept %v, want %v", trial, k, i, row[i], kept, want[i])
			}
		}
	}
}

func BenchmarkTruncation(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	row := normals(random, 50257, 3)
	work := make([]float32, len(row))
	var c truncation
	for b.Loop() {
		copy(work, row)
		c.keep(work, 50)
	}
}

// TestSampleTop: the kernel that cuts tails off while it draws takes only tokens that are kept, behind top_k as well, and each of them where
// its part of the cumulative distribution is.
func TestSampleTop(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 9))
	for trial := range 300 {
		v := 1 + random.IntN(700)
		if trial%20 == 19 {
			v += 50000
		}
		p := []float64{0.95, random.Float64(), 1e-9, 1 - 1e-6, 0.5}[trial%5]
		temperature, spread := math.Exp(0.5*random.NormFloat64()), math.Exp(2*random.NormFloat64())
		row := make([]float32, v)
		for i := range row {
			row[i] = float32(spread * random.NormFloat64())
			if trial%6 == 0 {
				row[i] = float32(random.IntN(3)) // many ties
			}
			if trial%7 == 0 && i > 0 && random.IntN(3) == 0 {
				row[i] = float32(math.Inf(-1))
			}
		}
		k := 0
		if trial%3 == 0 {
			k = 1 + random.IntN(v)
		}
		kept := tensortest.SortedCut(row, k, p, temperature)
		top := row[0]
		for _, x := range row {
			top = max(top, x)
		}
		weight, total := make([]float64, v), 0.0
		for i, x := range row {
			if kept[i] {
				weight[i] = math.Exp(float64(x-top) / temperature)
				total += weight[i]
			}
		}
		const n = 64
		u, rows := make([]float64, n), make([]float32, 0, n*v)
		for i := range u {
			u[i] = random.Float64()
			rows = append(rows, row...)
		}
		u[0] = 0
		var got []int32
		if err := Run(func(s *Scope) error {
			got = (&Sampler{Temperature: temperature, TopK: k, TopP: p}).Draw(s, s.FromFloat32(rows, n, int64(v)), u, nil)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		// A little more than p, as sums of float32 may have it.
		wide := tensortest.SortedCut(row, k, min(1, p*(1+1e-6)), temperature)
		for i, id := range got {
			if id < 0 || !kept[int(id)] && !wide[int(id)] {
				t.Fatalf("trial %d, p %g, %d tokens: token %d, which is not kept", trial, p, v, id)
			}
			before := 0.0
			for j := range id {
				before += weight[j]
			}
			if want := u[i] * total; want < before-1e-5*total || want > before+weight[id]+1e-5*total {
				t.Fatalf("trial %d, p %g: token %d has %g to %g of %g, drawn at %g", trial, p, id, before,
					before+weight[id], total, want)
			}
		}
	}
}

func BenchmarkDrawTopP(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	_ = Parallel(1, func(_ int, s *Scope) error {
		const n, v = 16, 49152
		x := normals(random, n*v, 2.5)
		u := make([]float64, n)
		for i := range u {
			u[i] = random.Float64()
		}
		from, work := s.FromFloat32(x, n, v), s.Empty(Float32, n, v)
		d := Sampler{Temperature: 1, TopP: 0.95}
		for b.Loop() {
			s.Copy_(work, from)
			d.Draw(s, work, u, nil)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n*b.N), "µs/row")
		return nil
	})
}
