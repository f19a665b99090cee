package genetic

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"popri/configs"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/tokenizer"
	"popri/testkit/testfile"
)

// TestPaperSettings: the defaults are the published ones.
func TestPaperSettings(t *testing.T) {
	g := settings.Of(configs.Default())
	if g.Population != 1000 || g.domain() != 300 || g.Parents != 30 || g.children() != 3000 || smoothing != .1 ||
		g.Selection != limitedDomain {
		t.Errorf("α = %g, %+v", smoothing, g)
	}
}

// TestProduct: the synthetic set has the kept texts of all rounds, the last round's first; each text once, public ones marked.
func TestProduct(t *testing.T) {
	tok, err := tokenizer.TrainBPE(slices.Values([]string{"a"}),
		tokenizer.TrainOptions{VocabSize: 258, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for round, selected := range [][]Row{
		{{Text: "a", Kept: true}, {Text: "b", Kept: true, Public: true}},
		{{Text: "c", Kept: true}, {Text: "b", Kept: true, Public: true}, {Text: "d"}, {Text: "c", Kept: true}},
		{{Text: "e"}},
	} {
		folder := rundir.Round(dir, round+1)
		testfile.Folder(t, folder)
		if err := rows.Write(filepath.Join(folder, rundir.Selection), selected); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		round int
		want  []string
	}{{1, []string{"a", "b"}}, {2, []string{"c", "b", "a"}}, {3, []string{"c", "b", "a"}}} {
		m := Method{Env: method.Env{Dir: dir, Tokenizer: tok}, round: c.round}
		got, err := m.Product(context.Background(), rounds.Stage{}, filepath.Join(t.TempDir(), rundir.Synthetic))
		if err != nil || !slices.Equal(sampling.Texts(got), c.want) {
			t.Errorf("%+v: %q (%v)", c, sampling.Texts(got), err)
		}
		for _, row := range got {
			if (row.Finish == sampling.Public) != (row.Text == "b") {
				t.Errorf("%+v: %+v", c, row)
			}
		}
	}
}
