package cost

import (
	"testing"

	"popri/configs"
	"popri/datasets/clients"
	"popri/run/evaluation"
	"popri/study/grid"
	"popri/testkit/testworld"
)

// The work of each method is the work of what it writes: Private Evolution's look-ahead and variations, no samples
// where public text alone is selected.
func TestEstimate(t *testing.T) {
	base := configuration(t, 4)
	base.Generate.Prompts, base.Generate.Samples = 10, 5
	testworld.Set(&base, "private_evolution.population=100")
	works := map[string]Work{}
	for name, change := range map[string]func(*configs.Config){
		"popri":                 func(*configs.Config) {},
		"private_evolution":     func(*configs.Config) {},
		"private_evolution_sft": func(*configs.Config) {},
		"public_selection":      func(*configs.Config) {},
		"dp_ftrl":               func(*configs.Config) {},
		"aug_pe": func(c *configs.Config) {
			c.Method = "private_evolution"
			testworld.Set(c, "private_evolution.variant=aug_pe")
		},
	} {
		c := base
		c.Method = name
		change(&c)
		w, err := Estimate(grid.Cell{Name: name, Config: c}, Counts{})
		if err != nil {
			t.Fatal(err)
		}
		works[name] = w
	}
	for name, want := range map[string]int{"popri": 200, "private_evolution": 4*4*100 + 3*100,
		"private_evolution_sft": 200, "public_selection": 0, "dp_ftrl": 0, "aug_pe": 4 * 6 * 100} {
		if got := works[name].Samples; got != want {
			t.Errorf("%s writes %d samples, want %d", name, got, want)
		}
	}
	if works["popri"].Pairs != 40 || works["private_evolution"].Pairs != 0 {
		t.Errorf("%+v", works)
	}
	if !(works["popri"].Flops > works["public_selection"].Flops &&
		works["private_evolution"].Flops > works["popri"].Flops) {
		t.Errorf("%+v", works)
	}
}

// A row without training costs the samples of the rounds after the first once more, where prompts quote them.
func TestEstimateOfTheRowWithoutTraining(t *testing.T) {
	c := configuration(t, 4)
	testworld.AskOnce(&c)
	generator, small, err := shapes(c)
	if err != nil {
		t.Fatal(err)
	}
	of := func(rows ...string) float64 {
		w, err := estimate(c, generator, small, Counts{}, rows)
		if err != nil {
			t.Fatal(err)
		}
		return w.Flops
	}
	plain := of(evaluation.KeyUntrained) - of(evaluation.KeyWritten)
	c.Generate.Quote = "scored"
	quoting := of(evaluation.KeyUntrained) - of(evaluation.KeyWritten)
	c.Trainer.Rounds = 1
	if once := of(evaluation.KeyUntrained) - of(evaluation.KeyWritten); !(plain > 0) || once != plain || !(quoting > plain) {
		t.Errorf("without training %g, quoting %g, quoting after one round %g operations", plain, quoting, once)
	}
}

// Shorter texts cost less to write and to learn, and longer ones than the cap no more. The memory does not depend on them.
// Where clients train, the work is in proportion to their texts.
func TestEstimateOfTheClientsTexts(t *testing.T) {
	c := configuration(t, 4)
	of := func(texts, words int) Work {
		w, err := Estimate(grid.Cell{Config: c}, Counts{Clients: map[clients.Split]clients.Counts{
			clients.Train: {Clients: 10, Texts: texts}, clients.Validation: {Clients: 10, Texts: 3, Words: 3 * words}}})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	short, full := of(10, 3), of(10, 0)
	if !(short.Flops < full.Flops) || of(10, 1000) != full || short.Memory != full.Memory || short.SmallMemory != full.SmallMemory {
		t.Errorf("%+v, and at full length %+v", short, full)
	}
	c.Method = "dp_fedavg"
	first, second := of(100, 12).Flops-of(0, 12).Flops, of(200, 12).Flops-of(100, 12).Flops
	if !(first > 0) || first != second {
		t.Errorf("a hundred texts at the clients cost %g operations, a hundred more %g", first, second)
	}
	c.Method = "hot_pate"
	all := of(100, 12).Flops
	if c.Set("hot_pate.teachers", "5") != nil || !(all > of(100, 12).Flops) {
		t.Errorf("ten teachers cost %g operations, five as many", all)
	}
}
