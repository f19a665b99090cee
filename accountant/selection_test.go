package accountant

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"popri/testkit/golden"
)

// TestSelectionEpsilon: the published bound of one selection, k = 30 and δ′ = 1e-6. Each of the three terms is the
// least in some case.
func TestSelectionEpsilon(t *testing.T) {
	for epsilon0, want := range map[float64]float64{.1: 1.590, .3: 5.669, .5: 10.948} {
		if got := publishedSelectionEpsilon(30, epsilon0, 1e-6); math.Abs(got-want) > 6e-4 {
			t.Errorf("ε0 = %g: %g, want %g", epsilon0, got, want)
		}
	}
	if got := publishedSelectionEpsilon(2, .5, 1e-6); got != 1 {
		t.Errorf("few picks: %g, want k·ε0", got)
	}
	// 9000·(e^.9 − 1)/(e^.9 + 1) + .9·√(20000·ln 10⁶) = 3797.09 + 473.09; the others are 9000 and 4050 + 236.54.
	if got := publishedSelectionEpsilon(10000, .9, 1e-6); math.Abs(got-4270.18) > .01 {
		t.Errorf("many picks: %g, want 4270.18", got)
	}
}

// TestSelections: what the ledger counts is within the published bound for the same noise, adds up over selections, and
// holds for groups.
func TestSelections(t *testing.T) {
	r := RDP{Relation: ZeroOut}
	for _, epsilon0 := range []float64{.05, .1, .3, .5, 1} {
		e := Event{Mechanism: Gumbel, Sigma: 2 / epsilon0, Picks: 30, Slack: 1e-6, Count: 1}
		got, err := r.Epsilon([]Event{e}, 2e-6)
		if err != nil {
			t.Fatal(err)
		}
		// Half the range: counts move in one direction.
		if published := publishedSelectionEpsilon(30, epsilon0, 1e-6); !(got < .6*published) {
			t.Errorf("ε0 = %g: %g, published %g", epsilon0, got, published)
		}
		many := e
		many.Count = 4
		split := []Event{e, {Mechanism: Gumbel, Sigma: 2 / epsilon0, Picks: 30, Slack: 1e-6, Count: 3}}
		a, errA := r.Epsilon([]Event{many}, 1e-5)
		b, errB := r.Epsilon(split, 1e-5)
		if errA != nil || errB != nil || a != b || !(a > got) {
			t.Errorf("four selections: %g and %g, one %g", a, b, got)
		}
		pair := e
		pair.Group = 2
		if both, err := r.Epsilon([]Event{pair}, 2e-6); err != nil || !(both > 1.9*got) {
			t.Errorf("a group of two: %g, one %g (%v)", both, got, err)
		}
	}
	e := Event{Mechanism: Gumbel, Sigma: 4, Picks: 3, Slack: 1e-5, Count: 10}
	if got, err := r.Epsilon([]Event{e}, 1e-4); err != nil || !math.IsInf(got, 1) {
		t.Errorf("all of δ is slack: ε = %g (%v)", got, err)
	}
	if got, err := r.Delta([]Event{e}, 1000); err != nil || math.Abs(got-1e-4) > 1e-9 {
		t.Errorf("at a large ε, δ = %g (%v), want the slack", got, err)
	}
	if got, err := r.Epsilon([]Event{{Mechanism: Gumbel, Picks: 3, Count: 1}}, 1e-4); err != nil ||
		!math.IsInf(got, 1) {
		t.Errorf("without noise, ε = %g (%v)", got, err)
	}
	// Pure: k draws of range η cost kη at most, at any δ.
	few := Event{Mechanism: Gumbel, Sigma: .25, Picks: 2, Count: 1}
	if got, err := r.Epsilon([]Event{few}, 1e-12); err != nil || got > 8+1e-3 {
		t.Errorf("ε = %g (%v), want 8 at most", got, err)
	}
	// With noised sums in one ledger, divergences add up.
	mixed := []Event{few, {Sigma: 2, Count: 3}}
	both, err := r.Epsilon(mixed, 1e-5)
	alone, _ := r.Epsilon(mixed[1:], 1e-5)
	if err != nil || !(both > alone) {
		t.Errorf("both %g, sums alone %g (%v)", both, alone, err)
	}
	for _, a := range []Accountant{Exact{}, PLD{}, RDP{Relation: Replace}} {
		if _, err := a.Epsilon([]Event{few}, 1e-5); !errors.Is(err, ErrNotApplicable) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	for _, bad := range []Event{{Mechanism: Gumbel, Sigma: 1, Count: 1}, {Sigma: 1, Picks: 2, Count: 1},
		{Sigma: 1, Slack: .1, Count: 1},
		{Mechanism: Gumbel, Sigma: 1, Picks: 1, Slack: 2, Count: 1},
		{Mechanism: Gumbel, Sigma: 1, Picks: 1, SamplingRate: .5, Count: 1}} {
		if _, err := r.Epsilon([]Event{bad}, 1e-5); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	// The noise that a budget needs.
	sigma, err := Plan{Each: Event{Mechanism: Gumbel, Picks: 30, Slack: 1e-6, Count: 5}}.Sigma(r, 3, 2e-5)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Epsilon([]Event{{Mechanism: Gumbel, Sigma: sigma, Picks: 30, Slack: 1e-6, Count: 5}},
		2e-5); err != nil || got > 3 || got < 2.999 {
		t.Errorf("σ = %g gives ε = %g (%v)", sigma, got, err)
	}
}

// TestGoldenSelection: lists alone and together with noised sums spend what dp_accounting says
// (scripts/selection_cases.py).
func TestGoldenSelection(t *testing.T) {
	var file struct {
		Orders []float64
		Cases  []struct {
			Picks, Lists, Sums                         int
			Scale, Slack, Delta, Sigma, Epsilon, Order float64
		}
	}
	golden.ReadJSON(t, filepath.Join(golden.Folder(t, "selection"), "cases.json"), &file)
	for _, c := range file.Cases {
		events := []Event{{Mechanism: Gumbel, Sigma: c.Scale, Picks: c.Picks, Slack: c.Slack, Count: c.Lists},
			{Sigma: c.Sigma, Count: c.Sums}}
		got, err := RDP{orders: file.Orders, Relation: ZeroOut}.Epsilon(events, c.Delta)
		if err != nil || math.Abs(got/c.Epsilon-1) > 1e-9 {
			t.Errorf("%+v: ε = %.15g (%v)", c, got, err)
		}
	}
	golden.Checked(t, "selection", len(file.Cases))
}

// publishedSelectionEpsilon is the ε of one selection of k elements as its paper states it, for noise of scale 2/ε0 and
// any neighbours, besides δ0 + δ′ (Durfee and Rogers 2019, theorem 2): the least of
//
//	k·ε0,   k·ε0·(e^ε0 − 1)/(e^ε0 + 1) + ε0·√(2k ln(1/δ′)),   k·ε0²/2 + ε0·√(½·k·ln(1/δ′))
//
// The ledger does not use it: the divergences of [Gumbel] events give less.
func publishedSelectionEpsilon(k int, epsilon0, delta float64) float64 {
	n, log := float64(k), math.Log(1/delta)
	return min(n*epsilon0, n*epsilon0*math.Tanh(epsilon0/2)+epsilon0*math.Sqrt(2*n*log),
		n*epsilon0*epsilon0/2+epsilon0*math.Sqrt(n*log/2))
}
