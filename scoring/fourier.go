package scoring

import (
	"math"
	"slices"

	"popri/internal/rng"
	"popri/model/embedding"
)

// fourier has random Fourier features of the Gaussian kernel exp(−‖x − y‖²/2h²) (Rahimi and Recht, NIPS 2007):
//
//	f_k(x) = √(2/n)·cos(⟨w_k, x⟩ + b_k)      w_k ~ N(0, h⁻²·I), b_k uniform in [0, 2π)
//
// ⟨f(x), f(y)⟩ estimates the kernel without bias. h is the median distance between public texts.
type fourier struct {
	frequencies []float64 // n×dim
	phases      []float64 // n
	key         string
}

// bandwidthPairs is the number of pairs of public texts whose median distance is the bandwidth.
const bandwidthPairs = 4096

func newFourier(public embedding.Matrix, n int, seed uint64) fourier {
	random := rng.New(seed, "features", "fourier")
	distances := make([]float64, 0, bandwidthPairs)
	for range bandwidthPairs {
		a, b := public.Row(random.IntN(public.Rows)), public.Row(random.IntN(public.Rows))
		if d := distance(a, b, L2); d > 0 {
			distances = append(distances, d)
		}
	}
	h := 1.0 // public texts that are all alike tell no bandwidth
	if len(distances) > 0 {
		slices.Sort(distances)
		h = distances[len(distances)/2]
	}
	f := fourier{frequencies: make([]float64, n*public.Dim), phases: make([]float64, n)}
	for i := range f.frequencies {
		f.frequencies[i] = random.NormFloat64() / h
	}
	for k := range f.phases {
		f.phases[k] = 2 * math.Pi * random.Float64()
	}
	f.key = keyOf(FourierFeatures, f.frequencies, f.phases)
	return f
}

// Len implements [Features].
func (f fourier) Len() int { return len(f.phases) }

// Key implements [Features].
func (f fourier) Key() string { return f.key }

// Of implements [Features].
func (f fourier) Of(out []float64, x []float32) {
	scale, dim := math.Sqrt(2/float64(len(f.phases))), len(x)
	for k, phase := range f.phases {
		out[k] = scale * math.Cos(dotOf(f.frequencies[k*dim:(k+1)*dim], x)+phase)
	}
}
