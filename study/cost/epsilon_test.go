package cost

import (
	"os"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/fault"
	"popri/study/grid"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// configuration is the shared world's with the given rounds.
func configuration(t *testing.T, rounds int) configs.Config {
	c := testworld.Shared(t).Config
	c.Trainer.Rounds = rounds
	return c
}

// What runs spend together is more than one of them spends; an impossible budget is named with its run.
func TestEpsilon(t *testing.T) {
	cells, err := grid.All(configuration(t, 1), []grid.Axis{{Key: "dpo.beta", Values: []string{"0.05", "0.1"}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	cost, _, err := Epsilon(cells, nil, true)
	if err != nil || len(cost) != 1 || cost[0].Charges != 4 || len(cost[0].Ledgers) != 4 {
		t.Fatalf("%v: %+v", err, cost)
	}
	one, _, err := Epsilon(cells[:1], nil, true)
	if err != nil || one[0].Epsilon > cells[0].Config.Privacy.Epsilon || cost[0].Epsilon < 1.5*one[0].Epsilon {
		t.Errorf("%v: one run spends ε = %g, four %g", err, one[0].Epsilon, cost[0].Epsilon)
	}
	cells[1].Config.Privacy.Delta = 0.5
	if _, _, err := Epsilon(cells, nil, true); !fault.IsUser(err) || !strings.Contains(err.Error(), cells[1].Name) {
		t.Errorf("an impossible budget: %v", err)
	}
}

// Where settings spend differently, the plan is the bound of all runs to their end.
func TestHalvingCost(t *testing.T) {
	c := configuration(t, 4)
	h := &Halving{Eta: 2, MinRounds: 1}
	composed := func(axis grid.Axis, h *Halving) (ledger.Composed, bool) {
		t.Helper()
		cells, err := grid.All(c, []grid.Axis{axis}, 1)
		if err != nil {
			t.Fatal(err)
		}
		cost, fixed, err := Epsilon(cells, h, true)
		if err != nil || len(cost) != 1 {
			t.Fatalf("%+v, %v", cost, err)
		}
		return cost[0], fixed
	}
	alike := grid.Axis{Key: "dpo.beta", Values: []string{"0.05", "0.1", "0.2", "0.4"}}
	all, _ := composed(alike, nil)
	some, fixed := composed(alike, h)
	if !fixed || all.Charges != 16 || some.Charges != 4+2+1+1 || some.Epsilon >= all.Epsilon {
		t.Errorf("alike: fixed %v, %d releases and ε = %g, of %d and %g", fixed, some.Charges, some.Epsilon,
			all.Charges, all.Epsilon)
	}
	differ := grid.Axis{Key: "privacy.epsilon", Values: []string{"2", "4", "6", "8"}}
	all, _ = composed(differ, nil)
	if some, fixed := composed(differ, h); fixed || some.Epsilon != all.Epsilon {
		t.Errorf("differing: fixed %v, ε = %g, want %g", fixed, some.Epsilon, all.Epsilon)
	}
}

// Methods that ask the clients for different things do not share a release.
func TestQuestionsOfMethods(t *testing.T) {
	c := configuration(t, 1)
	testworld.AskOnce(&c)
	for methods, want := range map[string]int{"popri,public_selection,grpo": 1, "public_selection,word_pairs": 2,
		"word_pairs,private_evolution,popri": 3} {
		cells, err := grid.All(c, []grid.Axis{{Key: "method", Values: strings.Split(methods, ",")}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		cost, _, err := Epsilon(cells, nil, true)
		if err != nil || len(cost) != 1 || cost[0].Charges != want {
			t.Errorf("%s: %v, %+v, want %d releases", methods, err, cost, want)
		}
	}
}
