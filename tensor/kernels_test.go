package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLogProbsMatchFloat64(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, d := range []DType{Float32, BFloat16} {
		for _, v := range []int{1, 7, 16, 33, 2048, 5000} {
			const n = 5
			data := make([]float32, n*v)
			for i := range data {
				data[i] = float32(8 * random.NormFloat64())
			}
			targets := make([]int32, n)
			weights := make([]float32, n)
			for i := range targets {
				targets[i] = int32(random.IntN(v))
				weights[i] = float32(random.NormFloat64())
			}
			err := Run(func(s *Scope) error {
				x := s.To(s.FromFloat32(data, n, int64(v)), d)
				exact := s.Float64s(x)
				l := s.NewLogProbs(x, targets, true, true)
				l.Grad_(weights)
				grad := s.Float64s(x)
				for r := range n {
					row := exact[r*v : (r+1)*v]
					max, rank, sum := slices.Max(row), 0, 0.0
					for i, a := range row {
						if own := row[targets[r]]; a > own || a == own && i < int(targets[r]) {
							rank++
						}
					}
					for _, a := range row {
						sum += math.Exp(a - max)
					}
					norm := max + math.Log(sum)
					entropy := 0.0
					for _, a := range row {
						entropy -= math.Exp(a-norm) * (a - norm)
					}
					if d := math.Abs(float64(l.Entropy[r]) - entropy); !(d < 1e-5*(1+entropy)) {
						t.Errorf("%v, %d tokens: the entropy is %g, want %g", x.DType(), v, l.Entropy[r], entropy)
					}
					if d := math.Abs(float64(l.Values[r]) - (row[targets[r]] - norm)); !(d < 1e-5) {
						t.Errorf("%v, %d tokens: log-probability is off by %g", x.DType(), v, d)
					}
					if int(l.Rank[r]) != rank {
						t.Errorf("%v, %d tokens: the rank is %d, want %d", x.DType(), v, l.Rank[r], rank)
					}
					for i, a := range row {
						want := -math.Exp(a - norm)
						if i == int(targets[r]) {
							want++
						}
						want *= float64(weights[r])
						tolerance := 2e-6
						if d == BFloat16 {
							tolerance = 1e-5 + math.Abs(want)/200
						}
						if !(math.Abs(grad[r*v+i]-want) < tolerance) {
							t.Fatalf("%v, %d tokens: gradient %d is %g, want %g", d, v, i, grad[r*v+i], want)
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

func TestSampleFollowsTheSoftmax(t *testing.T) {
	logits := []float32{0.3, -1.2, 2.0, float32(math.Inf(-1)), 0.9, -3, 1.5, 0, -0.5, 0.1, 0.2, 0.7, -2, 1, 1.1, -0.1, 0.4}
	const n = 40000
	for _, temperature := range []float64{0.5, 1, 2} {
		rows := make([]float32, 0, n*len(logits))
		u := make([]float64, n)
		for i := range n {
			rows = append(rows, logits...)
			u[i] = (float64(i) + 0.5) / n // stratified, so that the counts have almost no spread
		}
		counts := make([]float64, len(logits))
		if err := Run(func(s *Scope) error {
			d := Sampler{Temperature: temperature}
			for _, id := range d.Draw(s, s.FromFloat32(rows, n, int64(len(logits))), u, nil) {
				counts[id]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, x := range logits {
			total += math.Exp(float64(x) / temperature)
		}
		for i, x := range logits {
			want := n * math.Exp(float64(x)/temperature) / total
			if math.Abs(counts[i]-want) > 2 {
				t.Errorf("temperature %g: token %d was drawn %g times, want %.1f", temperature, i, counts[i], want)
			}
		}
	}
}

func BenchmarkLogProbs(b *testing.B) {
	const n, v = 512, 4096
	_ = Run(func(s *Scope) error {
		x := s.Zeros(BFloat16, n, v)
		targets := make([]int32, n)
		for b.Loop() {
			s.NewLogProbs(x, targets, false, false)
		}
		b.ReportMetric(n*v*float64(b.N)/b.Elapsed().Seconds()/1e9, "Glogit/s")
		return nil
	})
}
