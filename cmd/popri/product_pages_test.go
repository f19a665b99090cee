package main

import (
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/run/evaluation"
	"popri/show/datacard"
	"popri/show/report"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// productCounts is what a run publishes, counted in its Parquet file.
type productCounts struct {
	rows, written, public, distinct, repeated int
	isPublic                                  map[string]bool // by text
}

func countProduct(t *testing.T, dir string) productCounts {
	t.Helper()
	all, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Synthetic))
	if err != nil {
		t.Fatal(err)
	}
	p := productCounts{rows: len(all), isPublic: map[string]bool{}}
	copies := map[string]int{}
	for _, r := range all {
		if r.Text == "" {
			t.Fatalf("%s has an empty text", dir)
		}
		if copies[r.Text]++; r.Finish == sampling.Public {
			p.public++
			p.isPublic[r.Text] = true
		} else {
			p.written++
		}
		p.repeated = max(p.repeated, copies[r.Text])
	}
	p.distinct = len(copies)
	return p
}

var sampleCell = regexp.MustCompile(`(?s)<blockquote data-column="([^"]*)">(.*?)</blockquote>`)

// TestPagesAgreeWithTheProduct counts the rows of three kinds of products in their files: what the model wrote beside
// public texts, what the model wrote alone, and public texts alone. The card, the report and the comparison say the
// same.
func TestPagesAgreeWithTheProduct(t *testing.T) {
	w := testworld.Make(t)
	var dirs []string
	var products []productCounts
	for _, c := range []struct {
		name            string
		set             []string
		written, public bool
	}{
		{"both", []string{"scoring.release=once", "generate.quote=relevant", "synthetic.public_texts=30",
			"public_selection.texts=10"}, true, true},
		{"written", nil, true, false},
		{"public", []string{"method=public_selection", "scoring.release=once", "public_selection.texts=10"}, false,
			true},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		args := []string{"run", "--config", w.File, "--quiet", "--out", dir, "--set", "trainer.rounds=1", "--set",
			"synthetic.texts=20", "--set", "privacy.insecure_seeded_noise=false"}
		for _, s := range c.set {
			args = append(args, "--set", s)
		}
		for _, verb := range [][]string{args, {"eval", "--run", dir, "--quiet"}, {"report", dir}} {
			if code, _, errs := popri(t, verb...); code != 0 {
				t.Fatal(c.name, verb, errs)
			}
		}
		p := countProduct(t, dir)
		if (p.written > 0) != c.written || (p.public > 0) != c.public || c.public && p.repeated < 2 {
			t.Fatalf("%s is another product than the test is about: %+v", c.name, p)
		}
		t.Run(c.name, func(t *testing.T) {
			cardAgrees(t, dir, p)
			reportAgrees(t, dir, p)
			resultsAgree(t, dir, p)
		})
		dirs, products = append(dirs, dir), append(products, p)
	}
	comparisonAgrees(t, dirs, products)
}

// cardAgrees compares the counts of the data card, in its words and as JSON, with the synthetic set.
func cardAgrees(t *testing.T, dir string, p productCounts) {
	t.Helper()
	hub := filepath.Join(t.TempDir(), "hub")
	code, out, errs := popri(t, "data", "push-ready", dir, "--out", hub, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var r datacard.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if got := (productCounts{rows: r.Texts, written: r.Written, public: r.Public, distinct: r.Distinct,
		repeated: r.Repeated}); got.rows != p.rows || got.written != p.written || got.public != p.public ||
		got.distinct != p.distinct || got.repeated != p.repeated || r.LeftOut != 0 {
		t.Errorf("push-ready counts %+v, the file has %+v", got, p)
	}
	card := string(testfile.Read(t, filepath.Join(hub, datacard.Card)))
	says(t, "the card", card, fmt.Sprintf("%d rows, made by", p.rows), true)
	says(t, "the card", card, fmt.Sprintf("%d of the texts are different", p.distinct), true)
	says(t, "the card", card, fmt.Sprintf("the most frequent one has %d row", p.repeated), true)
	says(t, "the card", card, fmt.Sprintf("%d texts that a language model wrote", p.written), p.written > 0)
	says(t, "the card", card, "that a language model wrote", p.written > 0)
	says(t, "the card", card, fmt.Sprintf("%d copies of public texts, word for word", p.public), p.public > 0)
	says(t, "the card", card, "keep their own licence", p.public > 0)
}

// reportAgrees compares what the report calls the synthetic set, and the texts that it shows of each kind, with the synthetic set.
func reportAgrees(t *testing.T, dir string, p productCounts) {
	t.Helper()
	page := string(testfile.Read(t, filepath.Join(dir, "report.html")))
	says(t, "the report", page, fmt.Sprintf(" %d texts that the model wrote", p.written), p.written > 0)
	says(t, "the report", page, "that the model wrote", p.written > 0)
	says(t, "the report", page, report.Readable(fmt.Sprintf(" %d public texts that the clients", p.public)),
		p.public > 0)
	shown := map[string]int{}
	for _, q := range sampleCell.FindAllStringSubmatch(page, -1) {
		column, text := q[1], html.UnescapeString(q[2])
		if strings.Contains(q[2], "<") { // a place without a text
			continue
		}
		shown[column]++
		if want := column == "Chosen"; (column == "After" || column == "Chosen") && p.isPublic[text] != want {
			t.Errorf("the column %q has %q, which is public text: %v", column, text, p.isPublic[text])
		}
	}
	if (shown["After"] > 0) != (p.written > 0) || (shown["Chosen"] > 0) != (p.public > 0) {
		t.Errorf("the report shows %v of %+v", shown, p)
	}
}

// resultsAgree compares the names and the rows of the small models' training sets with the synthetic set.
func resultsAgree(t *testing.T, dir string, p productCounts) {
	t.Helper()
	outcome, err := evaluation.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)})
	if err != nil {
		t.Fatal(err)
	}
	both := p.written > 0 && p.public > 0
	for key, want := range map[string]int{c.Method: p.rows, evaluation.KeyWritten: p.written,
		evaluation.KeySelected: p.public} {
		r := outcome.Result(key)
		if (r != nil) != (both || key == c.Method) || r != nil && r.Texts != want {
			t.Errorf("the row %q of the table: %+v, the file has %+v", key, r, p)
		}
		if share := fmt.Sprintf("%d %% public text", 100*p.public/p.rows); key == c.Method {
			says(t, "the synthetic set's row", r.Name, share, both)
		}
	}
}

// comparisonAgrees checks that the comparison of runs has a row for the synthetic set that fits all of them, and the synthetic set
// of each in words.
func comparisonAgrees(t *testing.T, dirs []string, products []productCounts) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "compare.html")
	if code, _, errs := popri(t, append([]string{"compare", "--out", out}, dirs...)...); code != 0 {
		t.Fatal(errs)
	}
	page := html.UnescapeString(string(testfile.Read(t, out)))
	says(t, "the comparison", page, "what the run publishes", true)
	says(t, "the comparison", page, "% public text", false) // it is true of one of the runs alone
	for _, p := range products {
		if p.written > 0 {
			says(t, "the comparison", page, fmt.Sprintf(" %d texts that the model wrote", p.written), true)
		}
		if p.public > 0 {
			says(t, "the comparison", page, report.Readable(fmt.Sprintf(" %d public texts that the clients", p.public)),
				true)
		}
	}
}

// says reports where a page has a sentence that the synthetic set contradicts, or lacks one.
func says(t *testing.T, page, text, sentence string, want bool) {
	t.Helper()
	if strings.Contains(text, sentence) != want {
		t.Errorf("%s says %q: %v, want %v", page, sentence, !want, want)
	}
}
