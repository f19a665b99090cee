package reporting

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/sampling"
	"popri/show/report"
	"popri/testkit/testfile"
)

// The report has every round's samples, a prompt once however many rounds have it, and what was written for the same
// prompts before and after if the prompts were the same.
func TestRoundTexts(t *testing.T) {
	dir := t.TempDir()
	put := func(folder, name string, list []sampling.Row) {
		t.Helper()
		testfile.Folder(t, folder)
		if err := rows.Write(filepath.Join(folder, name), list); err != nil {
			t.Fatal(err)
		}
	}
	for round, text := range map[int]string{1: "a", 3: "b"} {
		folder := rundir.Round(dir, round)
		put(folder, rundir.Samples, []sampling.Row{{Prompt: 0, Text: text + "0"}, {Prompt: 1, Text: text + "1"}})
		if err := rows.Write(filepath.Join(folder, rundir.Prompts),
			[]sampling.PromptRow{{Index: 0, Text: "shared"}}); err != nil {
			t.Fatal(err)
		}
	}
	put(dir, rundir.Untuned, []sampling.Row{{Prompt: 0, Text: "before"}})
	put(dir, rundir.Synthetic, []sampling.Row{{Prompt: 5, Text: "public", Finish: sampling.Public},
		{Prompt: 0, Text: "product"}})
	put(rundir.Round(dir, 3), rundir.Written, []sampling.Row{{Prompt: 0, Text: "written"}})
	words := func(c configs.Config) string {
		got, err := roundTexts(dir, &c, 3)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, s := range got.Samples {
			list = append(list, s.Text)
		}
		if p := got.Samples; p[0].Prompt != p[2].Prompt || p[1].Prompt == p[3].Prompt ||
			got.Prompts[p[0].Prompt] != "shared" {
			t.Errorf("prompts are %+v of %q", p, got.Prompts)
		}
		if n := len(got.Samples); n > 4 &&
			(got.Samples[4].Prompt != got.Samples[n-1].Prompt || got.Samples[4].Round != report.BeforeTraining) {
			t.Errorf("before and after are %+v", got.Samples[4:])
		}
		return strings.Join(list, " ")
	}
	c := configs.Default()
	for _, k := range []struct {
		examples string
		public   int
		kept     float64
		want     string
	}{{"scored", 0, 1, "a0 a1 b0 b1"}, {"public", 0, 1, "a0 a1 b0 b1 before product"}, {"public", 10, 1,
		"a0 a1 b0 b1 before written"},
		{"public", 0, 0.5, "a0 a1 b0 b1 before written"}} {
		c.Generate.Quote, c.Synthetic.PublicTexts, c.Synthetic.Kept = k.examples, k.public, k.kept
		if got := words(c); got != k.want {
			t.Errorf("%+v: %s", k, got)
		}
	}
}

func TestCitation(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, rundir.Config), "seed: 1\n")
	c := configs.Default()
	c.Provenance = map[string]string{"program": "v1_2", "libtorch": "2.1.2"}
	text, err := citation(dir, "A run at ε = 1", "popri run --set a.b={c}", &c, methods.All[0], "abc")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`popri v1\_2;`, "libtorch 2.1.2;", "ledger abc;", "config.yaml sha256 ",
		`$\varepsilon$ = 1`, `a.b=\{c\}`, "hou2025popri"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", text, want)
		}
	}
	if strings.Contains(text, rundir.Synthetic) ||
		strings.Count(text, "{")-2*strings.Count(text, `\{`) != strings.Count(text, "}")-2*strings.Count(text, `\}`) {
		t.Errorf("a file that is not there, or braces that do not match: %s", text)
	}
	if other, err := citation(dir, "x", "y", &c, methods.All[1], ""); err != nil ||
		strings.Contains(other, "hou2025popri") {
		t.Errorf("another method: %s (%v)", other, err)
	}
}
