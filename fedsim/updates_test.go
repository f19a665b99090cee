package fedsim

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/scoring/update"
	"popri/testkit/testfile"
)

// learner makes up changes that depend on client and round: most are far beyond the bound, one is no number, one is
// zero.
type learner struct{ clients int }

const changes = 300 // values

func (l learner) N() int     { return l.clients }
func (learner) Workers() int { return 3 }

func (l learner) change(client, round int) []float64 {
	r := rng.New(1, "change", strconv.Itoa(client), strconv.Itoa(round))
	v, scale := make([]float64, changes), math.Exp(4*r.NormFloat64())
	for i := range v {
		v[i] = scale * r.NormFloat64()
	}
	switch client % 17 {
	case 3:
		v[7] = math.NaN()
	case 5:
		clear(v)
	}
	return v
}

func (l learner) Each(q update.Question, which []int, use func(worker, client int, change []float64) error) error {
	for k, i := range which {
		if err := use(k%l.Workers(), i, l.change(i, q.Round)); err != nil {
			return err
		}
	}
	return nil
}

const bound = .3

func updates(round int) update.Question {
	return update.Question{Training: update.Training{Rate: .1, Epochs: 1, Batch: 2, Clip: bound},
		Weights: make([]float32, changes),
		Round:   round, Earlier: func(r int) (update.Question, error) { return updates(r), nil }}
}

// clipped is the sum of clients' changes of a round by definition.
func clipped(clients []int, round int) []float64 {
	sum := make([]float64, changes)
	for _, i := range clients {
		v := (learner{}).change(i, round)
		update.Clip(v, bound)
		for k, x := range v {
			sum[k] += x
		}
	}
	return sum
}

func learning(t *testing.T, dir string, m Mechanism, seed *uint64) (*Federation, *ledger.Ledger) {
	t.Helper()
	b := ledger.Budget{Epsilon: math.Inf(1), Delta: 1e-3, Mechanism: "gaussian", Unit: "a client is a test",
		Relation: accountant.ZeroOut, Clients: testClients, InsecureSeededNoise: seed != nil}
	if g, ok := m.(Gaussian); ok && g.Sampling == ledger.Fixed {
		b.Relation = accountant.Replace
	}
	l, err := ledger.Obtain(filepath.Join(dir, "ledger.jsonl"), b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Learning{learner{testClients}}, m, Config{Ledger: l, InsecureSeed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

func collected(t *testing.T, f *Federation, dir string, round int) *release.Release {
	t.Helper()
	folder := testfile.Folder(t, filepath.Join(dir, fmt.Sprintf("%04d", round)))
	r, err := f.Collect(release.Request{Round: round, Query: updates(round), Dir: folder})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near reports whether a released sum is the true one but for rounding to the grid and to float32.
func near(got, want []float64) bool {
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-6*(1+math.Abs(want[i])) {
			return false
		}
	}
	return len(got) == len(want)
}

// TestSumOfUpdates: without noise, a release is the sum of the clipped updates; a cohort's is the sum of its clients.
func TestSumOfUpdates(t *testing.T) {
	f, l := learning(t, t.TempDir(), Gaussian{Float32: true}, nil)
	defer l.Close()
	dir := t.TempDir()
	if r := collected(t, f, dir, 1); !near(r.Sum, clipped(numeric.Indices(testClients), 1)) ||
		r.Query != updates(1).Name() || r.Clients != testClients {
		t.Error("all clients' sum is another")
	}
	seed := uint64(4)
	c := Gaussian{Sampling: ledger.Fixed, Cohort: 9, Float32: true}
	g, l2 := learning(t, t.TempDir(), c, &seed)
	defer l2.Close()
	who := c.cohort(testClients, g.random(release.Request{Round: 2}))
	if r := collected(t, g, t.TempDir(), 2); len(who) != 9 || !near(r.Sum, clipped(who, 2)) {
		t.Error("a cohort's sum is another")
	}
}

// TestUpdatesAreBounded: with or without any one client, the exact sum moves by no more than the charge says, which is
// the bound and what rounding adds. Clients whose training diverged count as zero.
func TestUpdatesAreBounded(t *testing.T) {
	grid, err := noise.NewGrid(1, bound, changes, testClients)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(which []int) ([]int64, error) {
		s, err := Learning{learner{testClients}}.Sum(Round{release.Request{Query: updates(1)}, grid, which})
		return s.Steps, err
	}
	all, err := sum(numeric.Indices(testClients))
	if err != nil {
		t.Fatal(err)
	}
	most := 0.0
	for i := range testClients {
		without, err := sum(slices.DeleteFunc(numeric.Indices(testClients), func(k int) bool { return k == i }))
		if err != nil {
			t.Fatal(err)
		}
		squares := 0.0
		for k := range all {
			d := grid.Value(all[k] - without[k])
			squares += d * d
		}
		if most = max(most, math.Sqrt(squares)); math.Sqrt(squares) > grid.Sensitivity || i%17 == 3 && squares > 0 {
			t.Errorf("client %d moves the sum by %g, the charge says %g", i, math.Sqrt(squares), grid.Sensitivity)
		}
	}
	if most < bound*(1-1e-6) || grid.Sensitivity > bound*(1+1e-4) {
		t.Errorf("the most is %g, bound %g, charge %g", most, bound, grid.Sensitivity)
	}
}

// TestNodesOfTree: without noise, the release of round t is the sum of the node that its leaf completes, over rounds in
// which no client is twice; also where another process takes over within the tree.
func TestNodesOfTree(t *testing.T) {
	tree := func() *Tree { return &Tree{Leaf: 6, Order: 9} } // 6 leaves of 40 clients
	members := func(number, leaf int) []int {
		return (&Tree{Leaf: 6, Order: 9, tree: number}).members(leaf, testClients)
	}
	dir := t.TempDir()
	f, l := learning(t, dir, tree(), nil)
	seen := map[int]bool{}
	for round := 1; round <= 14; round++ {
		if round == 4 || round == 9 {
			l.Close()
			f, l = learning(t, dir, tree(), nil)
		}
		number, leaf := (round-1)/6+1, (round-1)%6+1
		if leaf == 1 {
			clear(seen)
		}
		for _, i := range members(number, leaf) {
			if seen[i] {
				t.Errorf("client %d is in two leaves of tree %d", i, number)
			}
			seen[i] = true
		}
		want := make([]float64, changes)
		for at := accountant.NodeStart(leaf); at <= leaf; at++ {
			for k, x := range clipped(members(number, at), round-leaf+at) {
				want[k] += x
			}
		}
		r := collected(t, f, dir, round)
		if !near(r.Sum, want) || r.Tree != number || r.Leaf != leaf || r.Leaves != 6 || r.Clients != 6 {
			t.Errorf("round %d: tree %d, leaf %d of %d, %d clients, or another sum", round, r.Tree, r.Leaf, r.Leaves,
				r.Clients)
		}
	}
	if first, second := members(1, 1), members(2, 1); slices.Equal(first, second) {
		t.Error("each pass takes the clients in the same order")
	}
	l.Close()
}

// TestUpdatesGetTheirNoise: the noise of a release has the standard deviation that is charged, in every tree again.
func TestUpdatesGetTheirNoise(t *testing.T) {
	dir := t.TempDir()
	members := func(number, leaf int) []int { return (&Tree{Leaf: 20, tree: number}).members(leaf, testClients) }
	f, l := learning(t, dir, &Tree{Sigma: 2, Leaf: 20}, nil)
	defer l.Close()
	squares, n := 0.0, 0
	for round := 1; round <= 40; round++ {
		r := collected(t, f, dir, round)
		tree, leaf := (round-1)/2+1, (round-1)%2+1
		want := clipped(members(tree, leaf), round)
		if leaf == 2 {
			for k, x := range clipped(members(tree, 1), round-1) {
				want[k] += x
			}
		}
		for k := range want {
			d := r.Sum[k] - want[k]
			squares, n = squares+d*d, n+1
		}
	}
	if got := math.Sqrt(squares / float64(n)); math.Abs(got/(2*bound)-1) > 6/math.Sqrt(2*float64(n)) {
		t.Errorf("the noise is %g, want %g", got, 2*bound)
	}
	spent, err := l.Spent()
	want, _ := accountant.Exact{}.Epsilon([]accountant.Event{accountant.TreeEvent(2, 20*2)}, 1e-3)
	if err != nil || math.Abs(spent-want) > 1e-9 {
		t.Errorf("the ledger spends %g, 20 trees of two leaves %g (%v)", spent, want, err)
	}
}

// A federation answers the questions of its kind.
func TestUpdatesAndEmbeddingsAreNotMixed(t *testing.T) {
	f, l := learning(t, t.TempDir(), Gaussian{Float32: true}, nil)
	defer l.Close()
	if _, err := f.Collect(release.Request{Round: 1, Query: (newRun(t, 1, nil)).request(1).Query,
		Dir: t.TempDir()}); err == nil {
		t.Error("clients without embeddings answer a question about them")
	}
	g, l2 := newRun(t, 1, nil).open()
	defer l2.Close()
	if _, err := g.Collect(release.Request{Round: 1, Query: updates(1), Dir: t.TempDir()}); err == nil {
		t.Error("clients without a model train one")
	}
	if _, err := (noise.Grid{Step: 1}).RoundBounded([]float64{2 * bound}, bound); err == nil {
		t.Error("a vector beyond the bound is added")
	}
}
