package configs

import (
	"strings"
	"testing"
)

// A world overrides the preset; file, environment and --set override a world.
func TestWorldIsALayer(t *testing.T) {
	world := World{Name: "world w", Set: []string{"data.private=clients.parquet", "trainer.rounds=3",
		"privacy.epsilon=2", "eval.reference_private=true"}}
	t.Setenv("POPRI_TRAINER_ROUNDS", "4")
	c, err := Load(LoadOptions{World: world, Env: true, Set: []string{"privacy.epsilon=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Data.Private != "clients.parquet" || c.Trainer.Rounds != 4 || c.Privacy.Epsilon != 1 ||
		!c.Eval.ReferencePrivate {
		t.Errorf("%+v", c)
	}
	for _, set := range [][]string{{"data.private=other.parquet"}, {"data.private=other.parquet", "seed=2"}} {
		c, err := Load(LoadOptions{World: world, Set: set})
		if err != nil || c.Eval.ReferencePrivate {
			t.Errorf("%v: other clients count as declared public (%v)", set, err)
		}
	}
	c, err = Load(LoadOptions{World: World{Name: "world w", Set: world.Set[:1]}})
	if err != nil || c.Eval.ReferencePrivate {
		t.Errorf("a world that declares nothing: %v", err)
	}
	_, err = Load(LoadOptions{World: World{Name: "world w",
		Set: []string{"data.privat=x", "nothing", "trainer.rounds=many"}}})
	for _, want := range []string{"world w: data.privat: unknown key", `"nothing" is not of the form`, "trainer.rounds",
		"world w"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func TestSince(t *testing.T) {
	for since, ok := range map[string]bool{"": true, "1945": true, "1945-06": true, "1945-06-30": true, "45": false,
		"1945-13": false, "1945-06-31": false, "30.6.1945": false, "1945-6": false, "later": false} {
		_, err := Load(LoadOptions{Set: []string{"data.since=" + since}})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "data.since") {
			t.Errorf("data.since=%s: %v", since, err)
		}
	}
}
