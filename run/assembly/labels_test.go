package assembly

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/internal/rows"
)

// TestLabelMistakes: what labels are missing is said with file and row, before anything is made.
func TestLabelMistakes(t *testing.T) {
	dir := t.TempDir()
	type text struct {
		Text  string `parquet:"text"`
		Label string `parquet:"label,optional"`
	}
	public := func(name string, labels ...string) string {
		path := filepath.Join(dir, name)
		var list []text
		for i, l := range labels {
			list = append(list, text{strings.Repeat("w ", i+1) + "public", l})
		}
		if err := rows.Write(path, list); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two := public("two.parquet", "pos", "neg")
	private := func(name string, train, test string) string {
		path := filepath.Join(dir, name)
		p := &clients.Population{Clients: []clients.Client{
			{ID: "a", Split: clients.Train, Label: train, Texts: []string{"one", "two"}},
			{ID: "b", Split: clients.Validation, Label: "pos", Texts: []string{"three"}},
			{ID: "c", Split: clients.Test, Texts: []string{"four", "five"}, Labels: []string{"pos", test}}}}
		if err := clients.Write(path, p); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole := private("whole.parquet", "neg", "neg")
	for _, k := range []struct {
		public, private, task string
		byLabel, reference    bool
		want                  string
	}{
		{two, whole, "classification", true, true, ""},
		{two, private("holed.parquet", "neg", ""), "classification", true, false,
			"holed.parquet: row 4 of the test clients' texts have no label"},
		{two, private("open.parquet", "", "neg"), "classification", true, true,
			"open.parquet: row 0 and 1 more of the train clients'"},
		{two, filepath.Join(dir, "open.parquet"), "classification", true, false, ""}, // no model is trained on these
		{two, filepath.Join(dir, "holed.parquet"), "next_token", true, true, ""},
		{public("none.parquet", "", ""), whole, "next_token", false, false, ""},
		{filepath.Join(dir, "none.parquet"), whole, "next_token", true, false,
			"none.parquet: bad file: row 0 has no label"},
		{public("one.parquet", "pos", "pos"), whole, "classification", true, true,
			"all 2 texts have the label \"pos\""},
		{"godoc", whole, "next_token", true, true, "data.public is godoc, whose texts have no labels"},
	} {
		c := configs.Default()
		c.Data.Private, c.Data.Public = k.private, k.public
		c.Downstream.Task, c.Generate.ByLabel, c.Eval.ReferencePrivate = k.task, k.byLabel, k.reference
		corpus, err := LoadRun(c, nil)
		switch {
		case k.want == "" && err != nil:
			t.Errorf("%+v: %v", k, err)
		case k.want != "" && (err == nil || !fault.IsUser(err)):
			t.Errorf("%+v: the error is %v", k, err)
		case k.want != "":
			if !strings.Contains(err.Error(), k.want) {
				t.Errorf("%q is not in the error: %v", k.want, err)
			}
		default:
			if has := datasets.Labels(corpus.Public.Prompts) != nil; has != k.byLabel {
				t.Errorf("%+v: labels are read: %v", k, has)
			}
		}
	}
}
