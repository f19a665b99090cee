package datacard

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/parquetio"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/testkit/testfile"
)

// run makes a folder of a run whose product has the given texts.
func run(t *testing.T, seeded bool, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	l, err := ledger.Create(filepath.Join(dir, rundir.Ledger),
		ledger.Budget{Epsilon: 1, Delta: 1e-4, Mechanism: "gaussian", Unit: "a client is a test",
			Relation: accountant.ZeroOut, Data: "d", Clients: 100, InsecureSeededNoise: seeded})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(dir, rundir.Config), "seed: 5\n")
	var rows []plainRow
	for _, text := range texts {
		rows = append(rows, plainRow{text, "stop"})
	}
	var b bytes.Buffer
	if err := parquetio.Write(&b, rows, nil); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(dir, rundir.Synthetic), b.Bytes())
	return dir
}

func TestWrite(t *testing.T) {
	dir, out := run(t, false, "one", "", "two: \"three\""), filepath.Join(t.TempDir(), "hub")
	r, err := Write(dir, out, Options{Name: `a: "name"`, Program: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Texts != 2 || r.LeftOut != 1 {
		t.Errorf("%+v", r)
	}
	f, err := parquetio.Open(filepath.Join(out, Data))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if cells, err := f.Strings("text"); err != nil || len(cells) != 2 || cells[1].Value != `two: "three"` {
		t.Errorf("%v, %v", cells, err)
	}
	card := testfile.Read(t, filepath.Join(out, Card))
	front, body, ok := strings.Cut(strings.TrimPrefix(string(card), "---\n"), "---\n")
	var m map[string]any
	if err := yaml.Unmarshal([]byte(front), &m); !ok || err != nil || m["pretty_name"] != `a: "name"` ||
		!strings.Contains(front, "num_examples: 2\n") || m["dataset_info"] == nil || strings.Contains(front, "size: 0\n") {
		t.Errorf("%+v, %v:\n%s", m, err, front)
	}
	wanted := []string{r.SHA256, r.Guarantee, "seed: 5", "popri v1"}
	for _, name := range []string{rundir.Synthetic, rundir.Config, rundir.Ledger} {
		hash, err := atomicfile.SHA256(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, hash)
	}
	for _, want := range wanted {
		if !strings.Contains(body, want) {
			t.Errorf("the card lacks %q:\n%s", want, body)
		}
	}
}

// TestLabels: the labels of a product are a column of the data set, and nothing is said of them without any.
func TestLabels(t *testing.T) {
	type stored struct {
		Text   string `parquet:"text"`
		Finish string `parquet:"finish"`
		Label  string `parquet:"label,optional"`
	}
	for _, labels := range [][]string{{"pos", "neg"}, {"", ""}} {
		dir, out := run(t, false, "x"), filepath.Join(t.TempDir(), "hub")
		if err := rows.Write(filepath.Join(dir, rundir.Synthetic),
			[]stored{{"one", "stop", labels[0]}, {"", "stop", "odd"}, {"two", "public", labels[1]}}); err != nil {
			t.Fatal(err)
		}
		if _, err := Write(dir, out, Options{}); err != nil {
			t.Fatal(err)
		}
		f, err := parquetio.Open(filepath.Join(out, Data))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		card := testfile.Read(t, filepath.Join(out, Card))
		has := labels[0] != ""
		if f.Has("label") != has || strings.Contains(string(card), "label") != has ||
			strings.Contains(string(card), "text-classification") != has {
			t.Errorf("%q: columns %q, card\n%s", labels, f.Columns(), card)
		}
		if !has {
			continue
		}
		if cells, err := f.Strings("label"); err != nil || len(cells) != 2 || cells[0].Value != "pos" ||
			cells[1].Value != "neg" {
			t.Errorf("%v (%v)", cells, err)
		}
		if !strings.Contains(string(card), "one of 2") {
			t.Errorf("the card counts other labels:\n%s", card)
		}
	}
}

// TestOrigins: the card counts what was written, what is public text and what repeats, and names licence and language;
// another run's folder stays as it is.
func TestOrigins(t *testing.T) {
	dir, out := run(t, false, "x"), filepath.Join(t.TempDir(), "hub")
	if err := rows.Write(filepath.Join(dir, rundir.Synthetic),
		[]plainRow{{"one", "stop"}, {"two", "length"}, {"p", "public"}, {"p", "public"}, {"p", "public"}}); err != nil {
		t.Fatal(err)
	}
	r, err := Write(dir, out, Options{License: "cc-by-4.0", Language: "en"})
	if err != nil || r.Written != 2 || r.Public != 3 || r.Distinct != 3 || r.Repeated != 3 {
		t.Fatalf("%+v (%v)", r, err)
	}
	card := testfile.Read(t, filepath.Join(out, Card))
	for _, want := range []string{"2 texts that a language model wrote and 3 copies of public texts, word for word, capitals aside", "3 of the texts are different",
		"the most frequent one has 3 rows", "keep their own licence", "license: cc-by-4.0", "language:\n    - en"} {
		if !strings.Contains(string(card), want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	if strings.Contains(string(card), "synthetic texts, made by") {
		t.Error("the card calls public texts synthetic")
	}
	other := run(t, false, "y")
	testfile.Write(t, filepath.Join(other, rundir.Config), "seed: 6\n")
	if _, err := Write(other, out, Options{}); !fault.IsUser(err) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("another run's folder: %v", err)
	}
	if again, err := os.ReadFile(filepath.Join(out, Card)); err != nil || !bytes.Equal(again, card) {
		t.Errorf("the other run's card was changed (%v)", err)
	}
	if _, err := Write(dir, out, Options{}); err != nil {
		t.Errorf("the run's own folder: %v", err)
	}
	if r, err := Write(other, out, Options{Force: true}); err != nil || r.Texts != 1 {
		t.Errorf("by force: %+v (%v)", r, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	unfinished := run(t, false, "one")
	testfile.Remove(t, filepath.Join(unfinished, rundir.Synthetic))
	for want, dir := range map[string]string{"is no run": t.TempDir(), "no product yet": unfinished,
		"nobody is protected": run(t, true, "one"), "has no texts": run(t, false, "")} {
		out := filepath.Join(t.TempDir(), "hub")
		if _, err := Write(dir, out, Options{}); !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was written", want)
		}
	}
	if _, err := Write(run(t, true, "one"), t.TempDir(), Options{Unprotected: true}); err != nil {
		t.Error(err)
	}
}

func TestSizeOf(t *testing.T) {
	for n, want := range map[int]string{1: "n<1K", 999: "n<1K", 1000: "1K<n<10K", 99_999: "10K<n<100K",
		20_000_000: "10M<n<100M"} {
		if got := (Result{Texts: n}).SizeCategory(); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
