package run

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/reporting"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// askForKinds makes the prompts of a configuration ask for three kinds of text.
func askForKinds(t *testing.T, c *configs.Config) {
	testworld.AskOnce(c)
	list := testfile.Write(t, filepath.Join(t.TempDir(), "kinds.txt"), "storms at sea\nthe harbour\nbread\n")
	c.Generate.Kinds, c.Generate.Quote = list, "scored"
	c.Generate.TemplateHeader, c.Generate.TemplateItem = "Write {kind}.", "### {i}"
	c.Synthetic.PublicTexts = 0
}

// TestKinds: before round 1, the model is asked for each kind of text; round 1 quotes what it wrote, under the kind
// that it was asked for; what is written and published bears its kind; one release is charged; and a run that was
// killed in the search continues to the same bytes.
func TestKinds(t *testing.T) {
	w := testworld.Shared(t)
	c := w.Config
	askForKinds(t, &c)
	var found policy.Found
	want := t.TempDir()
	o := Options{Config: c, Dir: want, Events: rounds.Events{Log: func(event string, _ int, v any) {
		if event == "kinds" {
			found = v.(policy.Found)
		}
	}}}
	mustTrain(t, o)
	if _, entries := testworld.Charges(t, want); len(entries) != 1 {
		t.Errorf("%d charges, want one", len(entries))
	}
	total := 0.0
	for _, k := range found.Kinds {
		total += k.Share
	}
	if math.Abs(total-1) > 1e-9 {
		t.Errorf("the shares of %+v add up to %g", found.Kinds, total)
	}

	written := map[string]string{} // text to the kind that was asked for
	asked := map[string]int{}
	for _, file := range []string{"kinds-1.parquet", "kinds-2.parquet"} {
		part := samplesIn(t, filepath.Join(rundir.Round(want, 1), file))
		for _, r := range part {
			written[r.Text] = r.Kind
			if file == "kinds-1.parquet" {
				asked[r.Kind]++
			}
		}
	}
	if len(asked) != 3 || asked["bread"] != 3 || asked["the harbour"] != 3 {
		t.Errorf("at first, the model is asked for %v", asked)
	}
	for round := 1; round <= 2; round++ {
		prompts := rowsIn[sampling.PromptRow](t, filepath.Join(rundir.Round(want, round), policy.PromptsFile))
		samples := samplesIn(t, filepath.Join(rundir.Round(want, round), rundir.Samples))
		for _, p := range prompts {
			head, quoted, _ := strings.Cut(p.Text, "\n### 1\n")
			quoted, _, _ = strings.Cut(quoted, "\n### 2\n")
			known := false
			for text, kind := range written {
				known = known || kind == p.Kind && strings.HasPrefix(text, quoted)
			}
			if head != "Write "+p.Kind+"." || !known {
				t.Errorf("round %d: the prompt %q of kind %q", round, p.Text, p.Kind)
			}
		}
		clear(written)
		for _, r := range samples {
			if written[r.Text] = r.Kind; r.Kind != prompts[r.Prompt].Kind {
				t.Errorf("round %d: a sample of kind %q for the kind %q", round, r.Kind, prompts[r.Prompt].Kind)
			}
		}
	}
	product := samplesIn(t, filepath.Join(want, rundir.Synthetic))
	if slices.ContainsFunc(product, func(r sampling.Row) bool { return asked[r.Kind] == 0 }) {
		t.Errorf("the synthetic set has texts of no kind")
	}

	page, err := reporting.Of(want)
	if err != nil || !slices.ContainsFunc(page.Notes, func(n string) bool {
		return strings.HasPrefix(n, "Kinds of text: ") && strings.Contains(n, found.Kinds[0].Kind)
	}) {
		t.Errorf("the report says %q (%v)", page.Notes, err)
	}

	sameInterrupted(t, c, want, rounds.Stage{Name: "find kinds of text", Round: 1},
		rounds.Stage{Name: "generate", Round: 1})

	testfile.Write(t, c.Generate.Kinds, "storms at sea\nbread\n")
	if err := train(t.Context(), Options{Dir: want, Resume: true}); !fault.IsUser(err) ||
		!strings.Contains(err.Error(), "generate.kinds: the list of kinds of text has changed") {
		t.Errorf("with another list, a run goes on: %v", err)
	}
}
