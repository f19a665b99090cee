package fedavg

import (
	"popri/accountant"
	"popri/fedsim/release"
)

// server is the state of the weights: all of it follows from the initial weights and the releases.
type server struct {
	tree           bool    // DP-FTRL
	rate, momentum float64 // fedavg.server_learning_rate and momentum
	weights        []float32
	start          []float32 // of the tree: the weights before its first leaf
	velocity       []float64 // nil before the first round, and after a restart
	prefixes       []prefix  // of the tree: one for each node that makes up the leaves so far
}

// prefix is a released sum of the first leaves of a tree.
type prefix struct {
	leaves int
	sum    []float64
}

func newServer(initial []float32, tree bool, rate, momentum float64) *server {
	return &server{tree: tree, rate: rate, momentum: momentum, weights: initial, start: initial}
}

// apply does the server's step of a round. r.Clients is the number that the sum is divided by: of a Poisson sample the
// expected one, since the true one is secret.
//
//	federated averaging   v ← μ v + R          w ← w + rate/m · v
//	DP-FTRL               v ← μ v + G(t)       w ← w₀ + rate/m · v     at the last leaf: w₀ ← w, v ← 0, a new tree
func (s *server) apply(r *release.Release) {
	sum := r.Sum
	if s.tree {
		sum = s.prefix(r)
	} else {
		s.start = s.weights
	}
	if s.velocity == nil {
		s.velocity = make([]float64, len(sum))
	}
	next, k := make([]float32, len(sum)), s.rate/float64(r.Clients)
	for i, x := range sum {
		s.velocity[i] = s.momentum*s.velocity[i] + x
		next[i] = float32(float64(s.start[i]) + k*s.velocity[i])
	}
	s.weights = next
	if s.tree && r.Leaf == r.Leaves {
		s.start, s.velocity, s.prefixes = next, nil, nil
	}
}

// prefix is G(t), the released sum of the leaves up to the release's: the sums of the nodes before it and of the node
// that the leaf completes. So G(t) has the noise of popcount(t) nodes, and prefixes share the noise of common nodes.
func (s *server) prefix(r *release.Release) []float64 {
	sum := append([]float64(nil), r.Sum...)
	before := accountant.NodeStart(max(1, r.Leaf)) - 1
	for n := len(s.prefixes); n > 0 && s.prefixes[n-1].leaves > before; n-- {
		s.prefixes = s.prefixes[:n-1]
	}
	if n := len(s.prefixes); n > 0 {
		for i, x := range s.prefixes[n-1].sum {
			sum[i] += x
		}
	}
	s.prefixes = append(s.prefixes, prefix{r.Leaf, sum})
	return sum
}
