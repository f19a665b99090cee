package sampling

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/internal/rows"
)

// labelled are n public texts; every fourth one is "rare", the others "common".
func labelled(n int) []datasets.Text {
	out := publicTexts(n)
	for i := range out {
		out[i].Label = map[bool]string{true: "rare", false: "common"}[i%4 == 0]
	}
	return out
}

// TestPromptsByLabel: a prompt quotes texts of one label, which its header names; labels come in the proportion of the
// texts, or as they are asked for.
func TestPromptsByLabel(t *testing.T) {
	const n = 2000
	tok := newTokenizer(t, "text goes on and on")
	of := map[string]string{}
	for _, x := range labelled(40) {
		of[x.Text] = x.Label
	}
	g := configs.Generate{Examples: 3, ByLabel: true, TemplateItem: "Item {i}",
		TemplateHeader: "{label} items:"}
	p, err := NewPrompter(tok, g, configs.Data{MaxTokens: 200}, labelled(40), 2000, 10)
	if err != nil {
		t.Fatal(err)
	}
	check := func(prompts []Prompt) (rare int) {
		for _, x := range prompts {
			var quoted []string
			for _, line := range strings.Split(x.Text, "\n") {
				if label, ok := of[line]; ok {
					quoted = append(quoted, line)
					if label != x.Label {
						t.Fatalf("a prompt for %q quotes %q, which is %q", x.Label, line, label)
					}
				}
			}
			if len(quoted) != 3 || !strings.HasPrefix(x.Text, x.Label+" items:") {
				t.Fatalf("the prompt is %q", x.Text)
			}
			slices.Sort(quoted)
			if len(slices.Compact(quoted)) != 3 {
				t.Fatalf("a text is quoted twice: %q", x.Text)
			}
			if x.Label == "rare" {
				rare++
			}
		}
		return rare
	}
	prompts, err := p.Draw(rand.New(rand.NewPCG(1, 2)), n)
	if err != nil {
		t.Fatal(err)
	}
	if share := float64(check(prompts)) / n; math.Abs(share-0.25) > 4*math.Sqrt(0.25*0.75/n) {
		t.Errorf("%.3f of the prompts are of a quarter of the texts", share)
	}
	p, err = NewPrompter(tok, configs.Generate{Examples: 2}, configs.Data{MaxTokens: 200}, labelled(40), 2000, 10)
	if err != nil {
		t.Fatal(err)
	}
	if prompts, err := p.Draw(rand.New(rand.NewPCG(1, 2)), 5); err != nil || prompts[0].Label != "" ||
		p.Labels() != nil {
		t.Errorf("labels without generate.by_label: %+v (%v)", prompts, err)
	}
}

// TestLabelledRows: rows keep their labels in a file, files of earlier versions have none, and empty texts are left out
// with theirs.
func TestLabelledRows(t *testing.T) {
	texts, labels := Labelled([]Row{{Text: "a", Label: "x"}, {Label: "y"}, {Text: "b", Label: "z"}})
	if !slices.Equal(texts, []string{"a", "b"}) || !slices.Equal(labels, []string{"x", "z"}) {
		t.Errorf("%q %q", texts, labels)
	}
	path := filepath.Join(t.TempDir(), "rows.parquet")
	want := []Row{{Text: "a", Finish: "stop", Label: "x", IDs: []int32{1}},
		{Text: "b", Finish: "stop", IDs: []int32{2}}}
	if err := rows.Write(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := rows.Read[Row](path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v)", got, err)
	}
	type old struct { // before there were labels
		Prompt int64   `parquet:"prompt_index"`
		Sample int64   `parquet:"sample_index"`
		Text   string  `parquet:"text,zstd"`
		Finish string  `parquet:"finish,dict"`
		IDs    []int32 `parquet:"ids,zstd"`
		Model  string  `parquet:"model,dict"`
	}
	if err := rows.Write(path, []old{{1, 2, "a", "stop", []int32{3}, "m"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := rows.Read[Row](path); err != nil ||
		!reflect.DeepEqual(got, []Row{{1, 2, "a", "stop", []int32{3}, "m", "", ""}}) {
		t.Errorf("of an earlier version: %+v (%v)", got, err)
	}
}
