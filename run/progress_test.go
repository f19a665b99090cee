package run

import (
	"slices"
	"sync"
	"testing"

	"popri/methods/rounds"
	"popri/run/evaluator"
	"popri/show/series"
	"popri/testkit/testworld"
)

// Every part of a run that embeds texts or trains small models says how much of it is done, also before the run has a
// folder and after its rounds.
func TestLongPartsTellProgress(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Synthetic.Texts, c.Synthetic.PublicTexts, c.Synthetic.Mix = 1, 40, 10, "validated"
	c.Downstream.Steps, c.Downstream.EvalEvery = 20, 5
	var telling sync.Mutex
	now, told, opening := "", map[string]bool{}, []string{}
	s := mustOpen(t, Options{Config: c, Dir: t.TempDir(), Listen: func([]series.Series) rounds.Events {
		return rounds.Events{StageBegin: func(s rounds.Stage) {
			if now = s.Name; s.Opening {
				opening = append(opening, s.Name)
			}
		}, Progress: func(s rounds.Stage, done, total int) {
			telling.Lock()
			defer telling.Unlock()
			if s.Name != now || done < 1 || done > total {
				t.Errorf("%s tells %d of %d in %s", s.Name, done, total, now)
			}
			told[s.Name] = true
		}}
	}})
	defer s.Close()
	want := []string{"read data", "load the generator", "prepare the encoder", "prepare the method", "check inputs",
		"embed the clients' texts"}
	if !slices.Equal(opening, want) {
		t.Errorf("before the run: %q", opening)
	}
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun := 0
	o := evaluator.Options{Progress: evaluator.Progress{Begin: func() { begun++ }, Updated: func(int, int) {
		if begun != 1 {
			t.Error("an update before the beginning")
		}
	}}}
	if _, err := s.Evaluate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prepare the method", "embed the clients' texts", "embed public texts", "generate",
		"embed", "dpo", "synthesize after round 1", "synthesize untuned", "synthesize without training",
		"compare public text"} {
		if !told[name] {
			t.Errorf("%s tells nothing; told: %v", name, told)
		}
	}
}
