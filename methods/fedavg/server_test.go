package fedavg

import (
	"math"
	"slices"
	"testing"

	"popri/accountant"
	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rng"
)

// TestTreeNoise: with unit noise in each node, the noise of the sum of the first t leaves has the variance popcount(t),
// as trees without completion have it; and the next tree's noise is another.
func TestTreeNoise(t *testing.T) {
	const leaves, trees, values = 13, 2, 20000
	random := rng.New(1, t.Name())
	s := newServer(make([]float32, values), true, 1, 0)
	var first []float64 // noise of the first tree's last prefix
	for tree := 1; tree <= trees; tree++ {
		began := slices.Clone(s.weights)
		for leaf := 1; leaf <= leaves; leaf++ {
			r := &release.Release{Sum: make([]float64, values), Clients: 1, Tree: tree, Leaf: leaf, Leaves: leaves}
			for i := range r.Sum {
				r.Sum[i] = random.NormFloat64()
			}
			s.apply(r)
			squares, with, noise := 0.0, 0.0, make([]float64, values)
			for i := range s.weights {
				noise[i] = float64(s.weights[i]) - float64(began[i])
				squares += noise[i] * noise[i]
				if first != nil {
					with += noise[i] * first[i]
				}
			}
			ones := 0
			for n := leaf; n > 0; n &= n - 1 {
				ones++
			}
			if got := squares / values; math.Abs(got-float64(ones)) > .06*float64(ones) {
				t.Errorf("prefix %d has variance %g, want %d", leaf, got, ones)
			}
			if math.Abs(with)/values > 6*math.Sqrt(float64(3*ones)/values) {
				t.Errorf("the noise of prefix %d of tree %d is correlated with that of tree 1", leaf, tree)
			}
			if tree == 1 && leaf == leaves {
				first = noise
			}
		}
	}
}

// TestPrefixesShareNodes: the sums of the first 6 and 7 leaves differ by the release of leaf 7 alone; the sum of the
// first 8 shares none.
func TestPrefixesShareNodes(t *testing.T) {
	s := newServer(make([]float32, 1), true, 1, 0)
	var sums []float64
	for leaf := 1; leaf <= 8; leaf++ { // the node that ends at leaf k is marked by the digit 10^k
		s.apply(&release.Release{Sum: []float64{math.Pow(10, float64(leaf-1))}, Clients: 1, Leaf: leaf, Leaves: 9})
		sums = append(sums, float64(s.weights[0]))
	}
	if want := []float64{1, 10, 110, 1000, 11000, 101000, 1101000, 10000000}; !slices.Equal(sums, want) {
		t.Errorf("sums %v, want %v", sums, want)
	}
}

// TestServerSteps: the formulas of both forms, with momentum, divided by the number of clients.
func TestServerSteps(t *testing.T) {
	r := func(sum float64, leaf, leaves int) *release.Release {
		return &release.Release{Sum: []float64{sum}, Clients: 4, Leaf: leaf, Leaves: leaves}
	}
	avg := newServer([]float32{10}, false, 2, .5)
	avg.apply(r(4, 0, 0)) // v = 4
	avg.apply(r(2, 0, 0)) // v = 4
	if avg.weights[0] != 10+2+2 {
		t.Errorf("averaging gives %g", avg.weights[0])
	}
	tree := newServer([]float32{10}, true, 2, .5)
	tree.apply(r(4, 1, 2)) // G = 4, v = 4
	tree.apply(r(8, 2, 2)) // G = 8 (the node of both leaves), v = 10: restart
	tree.apply(r(6, 1, 2)) // v = 6
	if tree.weights[0] != 10+5+3 {
		t.Errorf("a tree gives %g", tree.weights[0])
	}
	// A pass of one leaf is a round of averaging.
	one, plain := newServer([]float32{1}, true, 1, 0), newServer([]float32{1}, false, 1, 0)
	for i := range 5 {
		one.apply(r(float64(i), 1, 1))
		plain.apply(r(float64(i), 0, 0))
	}
	if one.weights[0] != plain.weights[0] {
		t.Errorf("trees of one leaf give %g, averaging %g", one.weights[0], plain.weights[0])
	}
}

// TestNoiseNorm: how strong a round's noise is beside the norm bound, as the specification of DP-FedAvg has it for the
// paper's DistilGPT2 and for the demo, and the noise multipliers of 20 rounds of the demo.
func TestNoiseNorm(t *testing.T) {
	demo := configs.Default()
	demo.Downstream.Model = "embedded"
	demoSize := values(demo)
	if demoSize != 953856 {
		t.Errorf("the demo's small model has %d weights, want 953856", demoSize)
	}
	const distilGPT2 = 81912576
	for _, c := range []struct {
		sigma            float64
		weights, clients int
		want, tolerance  float64
	}{
		{3.35, distilGPT2, 72000, .42, .005}, {19.3, distilGPT2, 72000, 2.4, .05},
		{3.35, distilGPT2, 133000, .23, .005}, {19.3, distilGPT2, 133000, 1.3, .05},
		{2.70, demoSize, 1516, 1.7, .05}, {14.25, demoSize, 1516, 9.2, .05},
	} {
		if got := noiseNorm(c.sigma, c.weights, c.clients); math.Abs(got-c.want) > c.tolerance {
			t.Errorf("σ = %g, %d weights, %d clients: %g, want %g", c.sigma, c.weights, c.clients, got, c.want)
		}
	}
	for epsilon, want := range map[float64]float64{7: 2.70, 1: 14.25} {
		plan := accountant.Plan{Each: accountant.Event{Count: 20}}
		if got, err := plan.Sigma(accountant.Exact{}, epsilon, 1e-4); err != nil || math.Abs(got-want) > .005 {
			t.Errorf("ε = %g: σ = %g, want %g (%v)", epsilon, got, want, err)
		}
	}
}
