package run

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/configs"
	"popri/eval/downstream"
	"popri/fedsim"
	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/run/auditing"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/show/datacard"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

// oneTree makes a run of DP-FTRL with leaves of 7 of the 30 clients: trees of four leaves, of which the second is not
// finished.
func oneTree(c *configs.Config) {
	c.Method, c.Fed.Sampling, c.Fed.ClientsPerRound = "dp_ftrl", "tree", 7
	c.Trainer.Rounds, c.Trainer.Select = 7, "validation"
	testworld.Set(c, "fedavg.learning_rate=0.5", "fedavg.clip_norm=0.2", "fedavg.momentum=0.5")
}

// TestTreeInterrupted: a run that is stopped within a tree, twice, adds up the earlier leaves again and ends with the
// same bytes. Its ledger spends what account tree says of one tree of four leaves and one of three: 3 + 2 squares.
func TestTreeInterrupted(t *testing.T) {
	c := testworld.Shared(t).Config
	oneTree(&c)
	want := trained(t, c)
	sameInterrupted(t, c, want, rounds.Stage{Name: rounds.StageCollect, Round: 4},
		rounds.Stage{Name: "measure", Round: 6})
	budget, entries := testworld.Charges(t, want)
	spent, err := ledger.Spent(budget, entries)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := accountant.Tree{Steps: 4, MaxParticipation: 1}.SumSquares()
	part, _ := accountant.Tree{Steps: 3, MaxParticipation: 1}.SumSquares()
	exact, err := accountant.Exact{Relation: budget.Relation}.Epsilon(
		[]accountant.Event{accountant.TreeEvent(entries[0].Sigma, whole+part)}, budget.Delta)
	if err != nil || whole+part != 5 || math.Abs(exact-spent) > 1e-9*spent || spent < .999*budget.Epsilon {
		t.Errorf("the ledger spends %g, a tree of %d squares %g (%v)", spent, whole+part, exact, err)
	}
	if e := entries[6]; e.Tree != 2 || e.Leaf != 3 || e.Leaves != 4 || e.Cohort != 7 {
		t.Errorf("the last charge is %+v", e)
	}
}

// TestLearningRun: a run of federated averaging ends in a model that an evaluation tests as it is, and in a report and
// an audit of what was done. The chosen model is no worse on validation clients than the one it began with.
func TestLearningRun(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Trainer.Select, c.Privacy.Epsilon = "dp_fedavg", 4, "validation", 5000 // hardly any noise
	testworld.Set(&c, "fedavg.learning_rate=1", "fedavg.clip_norm=50", "fedavg.local_epochs=2")
	s, dir := trainedSession(t, c)
	figures, err := rounds.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	chosen, ok := rounds.Best(figures, configs.ValidationLoss)
	began := figures[0].Get(configs.ValidationLoss)
	if !ok || began == nil || !(chosen.Value < *began-.1) || chosen.Round == 0 {
		t.Errorf("chosen %+v, began with %v", chosen, began)
	}
	e, err := s.Evaluate(t.Context(), evaluator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	product, public := e.Result("dp_fedavg"), e.Result(downstream.Public)
	if product == nil || product.Texts != 0 || product.BestStep != 0 || !(product.Perplexity < public.Perplexity) {
		t.Errorf("the synthetic set has %+v, ε = 0 has %+v", product, public)
	}
	c.Eval.ReferencePrivate = false
	again, err := evaluator.Texts(t.Context(), c, filepath.Join(dir, rundir.Small), evaluator.TextsOptions{})
	if err != nil || again.Result("text") == nil || again.Result("text").Accuracy != product.Accuracy ||
		again.Result("text").Perplexity != product.Perplexity {
		t.Errorf("popri eval of the model's folder: %+v (%v)", again, err)
	}
	hub := t.TempDir()
	card, err := datacard.Write(dir, hub, datacard.Options{Unprotected: true})
	readme, unread := os.ReadFile(filepath.Join(hub, datacard.Card))
	if err != nil || unread != nil || !bytes.Contains(readme, []byte(card.SHA256)) ||
		!bytes.Contains(readme, []byte("AutoModelForCausalLM")) {
		t.Errorf("the model card: %v, %v:\n%s", err, unread, readme)
	}
	if m, err := lm.Load(hub, lm.Options{}); err != nil {
		t.Error(err)
	} else {
		m.Free()
	}
	page, err := reporting.Of(dir)
	if err != nil || page.Interrupted != "" || !strings.Contains(page.Product, "the model in the folder small") {
		t.Errorf("the report says %q, %q (%v)", page.Product, page.Interrupted, err)
	}
	words := strings.Join(append(page.Privacy.Statement, page.Notes...), " ")
	for _, want := range []string{"for the whole of a client's text", "least loss on the validation clients",
		"discrete Gaussian", "sends and receives"} {
		if !strings.Contains(words, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if cost, err := reporting.CostOf(dir); err != nil || cost.Sent != 2*cost.Received || cost.Received == 0 ||
		cost.Received%16 != 0 {
		t.Errorf("costs %+v (%v)", cost, err)
	}
	sound(t, dir, 4)
}

// TestAdapterRun: clients train an adapter. An interrupted run ends with the same bytes. The published model is the one
// that training began with and the adapter in its folder, and is better on validation clients. A release has as many
// values as the adapter's matrices B.
func TestAdapterRun(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Trainer.Select, c.Privacy.Epsilon = "dp_fedavg", 3, "validation", 5000
	testworld.Set(&c, "fedavg.lora_rank=2", "fedavg.learning_rate=0.02", "fedavg.clip_norm=0.5", "fedavg.local_epochs=2")
	dir := trained(t, c)
	sameInterrupted(t, c, dir, rounds.Stage{Name: rounds.StageCollect, Round: 2})
	figures, err := rounds.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	chosen, ok := rounds.Best(figures, configs.ValidationLoss)
	if began := figures[0].Get(configs.ValidationLoss); !ok || began == nil || !(chosen.Value < *began-.01) {
		t.Errorf("chosen %+v, began with %v", chosen, began)
	}
	small := filepath.Join(dir, rundir.Small)
	began := testmodel.Load(t, c.Downstream.Model, lm.Options{})
	defer began.Free()
	adapter, err := lora.Load(filepath.Join(small, "adapter"), began)
	if err != nil {
		t.Fatal(err)
	}
	defer adapter.Free()
	published := testmodel.Load(t, small, lm.Options{})
	defer published.Free()
	r, err := release.Read(filepath.Join(rundir.Round(dir, 1), release.File))
	if want := 2 * 2 * began.Config.Layers * began.Config.Hidden; err != nil || len(r.Sum) != want {
		t.Errorf("a release of %d values, want %d (%v)", len(r.Sum), want, err)
	}
	if err := adapter.MergeInto(began); err != nil {
		t.Fatal(err)
	}
	for _, name := range began.Names() {
		if !slices.Equal(began.Param(name).Host(), published.Param(name).Host()) {
			t.Errorf("%s of the published model is not what the adapter makes of it", name)
		}
	}
	if cost, err := reporting.CostOf(dir); err != nil ||
		cost.Received != 3*4*int64(len(r.Sum))+4*began.Parameters() || cost.Sent != 3*8*int64(len(r.Sum)) {
		t.Errorf("costs %+v (%v)", cost, err)
	}
	sound(t, dir, 3)
}

// TestLearningGame: the canary game is played on the path of the run's releases, as often as one client's updates are
// in a tree's nodes.
func TestLearningGame(t *testing.T) {
	c := testworld.Shared(t).Config
	oneTree(&c)
	a := played(t, trained(t, c), auditing.Options{Game: fedsim.Game{Trials: 400, Confidence: 1 - 1e-6}})
	if a.Canary == nil || !a.Canary.Holds() || math.Abs(a.Canary.Claimed-a.Epsilon) > 1e-6*a.Epsilon ||
		len(a.Problems) > 0 {
		t.Errorf("the game has %+v, the ledger ε = %g; %q", a.Canary, a.Epsilon, a.Problems)
	}
}

// TestStrengthOfNoise: a step of all weights has the noise of norm σ·C·√d/m, beside which an update of norm C at most
// is little.
func TestStrengthOfNoise(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Privacy.Epsilon = "dp_fedavg", 2, .5
	dir := trained(t, c)
	shape, err := lm.Inspect(c.Downstream.Model)
	if err != nil {
		t.Fatal(err)
	}
	_, entries := testworld.Charges(t, dir)
	figures, err := rounds.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, bound := methods.Of(c).Query(c)
	want := entries[0].Sigma * bound * math.Sqrt(float64(shape.Parameters)) / 30
	for _, r := range figures {
		if moved, said := r.Values["moved"], r.Values["noise"]; math.Abs(moved/want-1) > .05 ||
			math.Abs(said/want-1) > 1e-3 {
			t.Errorf("round %d moves the weights by %g, is said to by %g, want %g", r.Number, moved, said, want)
		}
	}
}

// TestFractionOfClients: a Poisson cohort's sum is divided by the expected number, since the true one is secret.
func TestFractionOfClients(t *testing.T) {
	c := testworld.Shared(t).Config
	c.Method, c.Trainer.Rounds, c.Fed.Sampling, c.Fed.ClientsPerRound = "dp_fedavg", 3, "poisson", 11
	dir := trained(t, c)
	for round := 1; round <= 3; round++ {
		r, err := release.Read(filepath.Join(rundir.Round(dir, round), release.File))
		if err != nil || r.Clients != 11 || !r.Narrow {
			t.Errorf("round %d has %d clients (%v)", round, r.Clients, err)
		}
	}
	_, entries := testworld.Charges(t, dir)
	if len(entries) != 3 || entries[2].SamplingRate != 11./30 {
		t.Errorf("charges %+v", entries)
	}
}

// TestLearningRefuses: what these methods cannot do is refused before there is a folder.
func TestLearningRefuses(t *testing.T) {
	for key, change := range map[string]func(*configs.Config){
		"fed.sampling":       func(c *configs.Config) { c.Fed.Sampling, c.Fed.ClientsPerRound = "poisson", 5 },
		"fedavg.clip_norm":   func(c *configs.Config) { testworld.Set(c, "fedavg.clip_norm=0") },
		"aggregate.least":    func(c *configs.Config) { c.Aggregate.Least = 5 },
		"trainer.select":     func(c *configs.Config) { c.Method, c.Trainer.Select = "popri", "validation" },
		"unsafe_diagnostics": func(c *configs.Config) { c.Privacy.UnsafeDiagnostics = true },
		"needs the method": func(c *configs.Config) {
			c.Method, c.Fed.Sampling, c.Fed.ClientsPerRound = "dp_fedavg",
				"tree", 5
		},
	} {
		c := testworld.Shared(t).Config
		c.Method = "dp_ftrl"
		change(&c)
		refuses(t, c, key)
	}
}
