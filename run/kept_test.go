package run

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/datasets"
	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/testkit/testworld"
)

// TestScoredQuotesAndKeptTexts: from round 2 on, prompts quote the best samples of the rounds before; the written part
// of the synthetic set is drawn by weight from what the model wrote; and a run that was killed continues to the same bytes.
func TestScoredQuotesAndKeptTexts(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Generate.Quote = 3, "scored"
	c.Synthetic.Texts, c.Synthetic.PublicTexts, c.Synthetic.Kept = 60, 10, 0.5
	want := t.TempDir()
	var kept target.Kept
	o := Options{Config: c, Dir: want, Events: rounds.Events{Log: func(event string, _ int, v any) {
		if event == "kept" {
			kept = v.(target.Kept)
		}
	}}}
	mustTrain(t, o)
	if kept.Texts != 60 || kept.Effective < 29.9 || kept.Effective > 60 || !(kept.Weighted < kept.Distance) {
		t.Errorf("the weights: %+v", kept)
	}

	chosen, err := target.Read(want)
	if err != nil {
		t.Fatal(err)
	}
	quotable := datasets.Strings(target.Texts(chosen))
	for round := 1; round <= 3; round++ {
		prompts := rowsIn[sampling.PromptRow](t, filepath.Join(rundir.Round(want, round), policy.PromptsFile))
		for _, p := range prompts {
			for _, line := range strings.Split(strings.TrimSpace(p.Text), "\n") {
				// A sample that was cut is quoted up to its last whole word or sentence.
				quoted := func(text string) bool { return text == line || round > 1 && strings.HasPrefix(text, line) }
				if line != "" && !slices.ContainsFunc(quotable, quoted) {
					t.Errorf("round %d: a prompt quotes %q", round, line)
				}
			}
		}
		if round == 1 {
			quotable = nil
		}
		samples := samplesIn(t, filepath.Join(rundir.Round(want, round), rundir.Samples))
		quotable = append(quotable, sampling.Texts(samples)...)
	}

	written := samplesIn(t, filepath.Join(rundir.Round(want, 3), "written.parquet"))
	if len(written) != 60 {
		t.Fatalf("%d texts written", len(written))
	}
	product := samplesIn(t, filepath.Join(want, rundir.Synthetic))
	if len(product) != 70 {
		t.Fatalf("%d texts in the synthetic set", len(product))
	}
	texts, different := sampling.Texts(written), map[string]bool{}
	for _, row := range product[10:] {
		if row.Finish == sampling.Public || !slices.Contains(texts, row.Text) {
			t.Errorf("the synthetic set has %+v", row)
		}
		different[row.Text] = true
	}
	if len(different) < 15 || len(different) == 60 {
		t.Errorf("%d different texts of 60 were kept", len(different))
	}

	sameInterrupted(t, c, want, rounds.Stage{Name: "generate", Round: 3},
		rounds.Stage{Name: "synthesize after round 3"})
}

// TestUntrainedIsATwin: the row without training is what a run of the same seed writes whose updates change nothing, so
// that its prompts quote none of the trained model's samples; a kill between its rounds changes nothing.
func TestUntrainedIsATwin(t *testing.T) {
	c := testworld.Shared(t).Config
	testworld.AskOnce(&c)
	c.Trainer.Rounds, c.Generate.Quote, c.Generate.MinNewTokens = 3, "scored", 0 // some samples are empty
	c.Synthetic.Texts, c.Synthetic.PublicTexts, c.Synthetic.Kept = 60, 0, 0.5
	run := func(rate float64) string {
		c.Optimizer.LearningRate = rate
		dir := t.TempDir()
		mustTrain(t, Options{Config: c, Dir: dir})
		return dir
	}
	texts := func(file string) []string {
		list := samplesIn(t, file)
		return sampling.Texts(list)
	}
	trained, twin := run(c.Optimizer.LearningRate), run(1e-30)
	for _, stop := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Dir: trained, Resume: true}
		o.Events.Progress = func(s rounds.Stage, done, total int) {
			if stop && total == c.Generate.Prompts*c.Generate.Samples && done == total { // of a round's samples
				cancel()
			}
		}
		s, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.untrained()(ctx); errors.Is(err, context.Canceled) != stop || !stop && err != nil {
			t.Fatalf("stopped %v: %v", stop, err)
		}
		s.Close()
		cancel()
	}
	want := texts(filepath.Join(twin, rundir.Synthetic))
	if got := texts(filepath.Join(trained, rundir.Untrained)); !slices.Equal(got, want) {
		t.Errorf("without training, %q were written, and by the twin %q", got, want)
	}
	if slices.Equal(texts(filepath.Join(trained, rundir.Synthetic)), want) {
		t.Error("training changed nothing")
	}
}
