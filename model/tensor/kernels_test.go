package tensor

import (
	"fmt"
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
			data := normals(random, n*v, 8)
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
					mean := 0.0
					for _, a := range row {
						mean += a / float64(v)
					}
					if d := math.Abs(float64(l.Mean[r]) - mean); !(d < 1e-4) {
						t.Errorf("%v, %d tokens: the mean is %g, want %g", x.DType(), v, l.Mean[r], mean)
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

// A row is read in chunks of 2048 logits; chunks without a finite one and steps of the greatest must not matter.
func TestLogProbsAcrossChunks(t *testing.T) {
	const v = 3*2048 + 5
	nan, none := float32(math.NaN()), float32(math.Inf(-1))
	for name, c := range map[string]struct {
		chunk [4]float32
		bad   bool
	}{
		"rising":        {[4]float32{-80, 1, 60, 61}, false},
		"falling":       {[4]float32{61, 60, -80, 2}, false},
		"hidden first":  {[4]float32{none, none, 3, 2}, false},
		"hidden last":   {[4]float32{3, 2, none, none}, false},
		"all hidden":    {[4]float32{none, none, none, none}, true},
		"no number":     {[4]float32{1, nan, 3, 2}, true},
		"no number yet": {[4]float32{nan, 1, 3, 2}, true},
		"infinite":      {[4]float32{1, float32(math.Inf(1)), 3, 2}, true},
	} {
		row := make([]float32, v)
		total, weighted := 0.0, 0.0
		for i := range row {
			row[i] = c.chunk[i/2048] + float32(i%3)
		}
		for _, x := range row {
			total += math.Exp(float64(x))
		}
		for _, x := range row {
			if p := math.Exp(float64(x)) / total; p > 0 {
				weighted -= p * math.Log(p)
			}
		}
		target := int32(2048*2 + 7)
		if c.chunk[2] == none {
			target = 7
		}
		for _, d := range []DType{Float32, BFloat16} {
			_ = Run(func(s *Scope) error {
				l := s.NewLogProbs(s.To(s.FromFloat32(row, 1, v), d), []int32{target}, true, true)
				got, want := float64(l.Values[0]), float64(row[target])-math.Log(total)
				switch {
				case c.bad:
					if !math.IsNaN(got) || !math.IsNaN(float64(l.Entropy[0])) || l.Rank[0] != v {
						t.Errorf("%s, %v: log-probability %g, entropy %g, rank %d", name, d, got, l.Entropy[0],
							l.Rank[0])
					}
				case !(math.Abs(got-want) < 2e-5*(1+math.Abs(want))) ||
					!(math.Abs(float64(l.Entropy[0])-weighted) < 1e-4*(1+weighted)):
					t.Errorf("%s, %v: log-probability %g, want %g; entropy %g, want %g", name, d, got, want,
						l.Entropy[0], weighted)
				}
				return nil
			})
		}
	}
}

func TestSampleFollowsTheSoftmax(t *testing.T) {
	logits := []float32{0.3, -1.2, 2.0, float32(math.Inf(-1)), 0.9, -3, 1.5, 0, -0.5, 0.1, 0.2, 0.7, -2, 1, 1.1, -0.1,
		0.4}
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
	for _, d := range []DType{Float32, BFloat16} {
		_ = Run(func(s *Scope) error {
			x := s.Zeros(d, n, v)
			targets, weights := make([]int32, n), make([]float32, n)
			var l *LogProbs
			for name, work := range map[string]func(){
				"values": func() { l = s.NewLogProbs(x, targets, false, false) },
				"grad":   func() { l.Grad_(weights) },
			} {
				l = s.NewLogProbs(x, targets, false, false)
				b.Run(fmt.Sprintf("%s/%s", d, name), func(b *testing.B) {
					for b.Loop() {
						work()
					}
					b.ReportMetric(n*v*float64(b.N)/b.Elapsed().Seconds()/1e9, "Glogit/s")
				})
			}
			return nil
		})
	}
}
