package fedsim

import (
	"math"
	"path/filepath"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/fedsim/release"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/scoring/counts"
	"popri/scoring/ensemble"
)

// texts are clients with rows of tokens.
type texts [][][]int32

func (t texts) N() int               { return len(t) }
func (t texts) Rows(i int) [][]int32 { return t[i] }
func (t texts) question() counts.Question {
	q := counts.Question{Share: .7}
	for i := range int32(40) {
		q.Tokens = append(q.Tokens, i)
	}
	return q
}

// extreme are clients without texts, with one token, with one pair, with the same one very often, and with thousands of texts.
func extreme(t *testing.T) texts {
	random, many := rng.New(1, t.Name()), make([][]int32, 4000)
	for i := range many {
		for range 1 + random.IntN(30) {
			many[i] = append(many[i], int32(random.IntN(45)))
		}
	}
	same := make([]int32, 1e5)
	return texts{nil, {{7}}, {{7, 7}}, {same}, many, many[:10]}
}

// TestCountsWithinSensitivity: on the grid, the sum moves by no more than the charged sensitivity with any client.
func TestCountsWithinSensitivity(t *testing.T) {
	all := extreme(t)
	q := all.question()
	grid, err := noise.NewGrid(.5, q.Bound(), q.Len(), len(all))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		sum, err := Counting{all}.Sum(Round{release.Request{Query: q}, grid, []int{i}})
		if err != nil {
			t.Fatal(err)
		}
		squares := 0.0
		for _, k := range sum.Steps {
			squares += grid.Value(k) * grid.Value(k)
		}
		if norm := math.Sqrt(squares); norm > grid.Sensitivity || i > 1 && norm < .999 || i < 2 && norm != 0 {
			t.Errorf("client %d moves the sum by %g, sensitivity %g", i, norm, grid.Sensitivity)
		}
	}
}

// TestCountsAddUp: a release without noise is the sum of all clients' vectors, as naive code has it; one with noise
// differs from it by the noise of its seed, and is charged for it.
func TestCountsAddUp(t *testing.T) {
	all := extreme(t)
	q := all.question()
	want := make([]float64, q.Len())
	for i := range all {
		index, values := q.Vector(all.Rows(i))
		for k, at := range index {
			want[at] += values[k]
		}
	}
	for _, sigma := range []float64{0, 2} {
		dir := t.TempDir()
		l, err := ledger.Create(filepath.Join(dir, "ledger.jsonl"), ledger.Budget{Epsilon: math.Inf(1), Delta: 1e-5,
			Mechanism: "gaussian", Unit: "a client is a test", Relation: accountant.ZeroOut, Clients: len(all),
			InsecureSeededNoise: true})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f, err := New(Counting{all}, Gaussian{Sigma: sigma}, Config{Ledger: l, InsecureSeed: new(uint64(3))})
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Collect(release.Request{Round: 1, Query: q, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		grid, err := noise.NewGrid(sigma, q.Bound(), q.Len(), len(all))
		drawn := make([]int64, q.Len())
		if err == nil {
			err = noise.Add(drawn, grid, rng.New(3, "noise", "1"))
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, y := range r.Sum {
			if d := y - grid.Value(drawn[i]) - want[i]; math.Abs(d) > float64(len(all))*grid.Step {
				t.Fatalf("σ = %g: value %d is %g with noise %g, want %g", sigma, i, y, grid.Value(drawn[i]), want[i])
			}
		}
	}
	if err := (Counting{all}).CanAnswer(ensemble.Question{}); err == nil {
		t.Error("clients who count vote for tokens")
	}
	half, err := Counting{all}.Sum(Round{release.Request{Query: q}, noise.Grid{Step: 0x1p-40}, numeric.Indices(3)})
	if err != nil || half.Reports != len(all) {
		t.Errorf("a cohort's sum has %d reports (%v): how many were asked is secret", half.Reports, err)
	}
}

// Counts are protected as model updates are.
func TestCanaryOfCounts(t *testing.T) {
	sigma, err := accountant.Plan{Each: accountant.Event{Count: 1}}.Sigma(accountant.Exact{}, 7, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	g := Game{Counts: true, Sigma: sigma, Rounds: 1, Delta: 1e-5, Trials: 1500, Confidence: 1 - 1e-7}
	if o, err := g.Play(); err != nil || !o.Holds() || !(o.GaussianBound > 2.1) {
		t.Errorf("%+v (%v)", o, err)
	}
	mustShow(t, g, .5)
}
