package clients

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// lines encodes rows as JSON lines.
func lines(t testing.TB, rows ...map[string]any) string {
	t.Helper()
	var b strings.Builder
	for _, r := range rows {
		if err := json.NewEncoder(&b).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// written describes a population as "split/client: text, text".
func written(p *Population) (out []string) {
	for _, c := range p.Clients {
		out = append(out, fmt.Sprintf("%s/%s: %s", c.Split, c.ID, strings.Join(c.Texts, ", ")))
	}
	return out
}

func TestShape(t *testing.T) {
	type row = map[string]any
	content := lines(t,
		row{"client_id": "a", "date": "1999-12-31", "text": "old a"}, row{"client_id": "a", "date": "2000-06-01",
			"text": "mid a"},
		row{"client_id": "b", "date": "2000-01-01", "text": "mid b"}, row{"client_id": "b", "date": "2001-01-01",
			"text": "new b"},
		row{"client_id": "c", "date": "1999-01-01", "text": "old c"}, row{"client_id": "d", "text": "when"},
		row{"client_id": "c", "date": "1999-01-02", "text": "older than c but longer"})
	for _, c := range []struct {
		name string
		s    Shape
		want []string
		left LeftOut
	}{
		{"window", Shape{From: "2000", To: "2000-06"}, []string{"train/a: mid a", "train/b: mid b"},
			LeftOut{{tooEarly, 3, 0}, {tooLate, 1, 0}, {noDate, 1, 0}}},
		{"split by date", Shape{ValidationFrom: "2000", TestFrom: "2001-01-01"},
			[]string{"validation/a: mid a", "test/b: new b", "train/c: old c, older than c but longer"},
			LeftOut{{noDate, 1, 0}, {otherSplit, 2, 0}}},
		{"spans of words", Shape{SpanWords: 2, From: "1999-01-02", To: "1999-01"},
			[]string{"train/c: older than, c but, longer"}, LeftOut{{tooLate, 4, 0}, {tooEarly, 1, 0}, {noDate, 1, 0}}},
		{"spans of tokens", Shape{SpanTokens: 9, Tokens: func(s string) int { return len(s) }, From: "1999-01-02",
			To: "1999-01"}, []string{"train/c: older, than c, but, longer"}, LeftOut{{tooLate, 4, 0}, {tooEarly, 1, 0},
			{noDate, 1, 0}}},
		{"few words", Shape{SpanWords: 4, MinWords: 2},
			[]string{"train/a: old a, mid a", "train/b: mid b, new b", "train/c: old c, older than c but"},
			LeftOut{{fewWords, 2, 1}}},
		{"texts of a client", Shape{MinTexts: 2, MaxTexts: 2, SpanWords: 3},
			[]string{"train/a: old a, mid a", "train/b: mid b, new b",
				"train/c: old c, older than c"}, LeftOut{{manyTexts, 1, 0}, {fewTexts, 1, 1}}},
	} {
		o := ImportOptions{Shape: c.s}
		if !c.s.dated() {
			o.Shares = [3]float64{1, 0, 0}
		}
		p, m, err := importText(t, "a.jsonl", content, o)
		if err != nil || !reflect.DeepEqual(written(p), c.want) || !reflect.DeepEqual(m.LeftOut, c.left) {
			t.Errorf("%s: %q, %+v, %v; want %q, %+v", c.name, written(p), m.LeftOut, err, c.want, c.left)
		}
	}
}

// people are n clients with a text each, a label of ten.
func people(t testing.TB, n int) string {
	t.Helper()
	var rows []map[string]any
	for i := range n {
		rows = append(rows, map[string]any{"client_id": fmt.Sprint("p", i), "text": fmt.Sprint("text ", i),
			"label": fmt.Sprint(i % 10)})
	}
	return lines(t, rows...)
}

func TestSubsetsOfClientsAreNested(t *testing.T) {
	content := people(t, 400)
	subset := func(n int, seed uint64) (train map[string]bool, rest int) {
		p, m, err := importText(t, "a.jsonl", content,
			ImportOptions{Shares: defaultShares, Shape: Shape{Clients: n}, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		train = map[string]bool{}
		for _, c := range p.Split(Train) {
			train[c.ID] = true
		}
		if len(train) != n || leftOut(m)+len(p.Clients) != 400 {
			t.Errorf("%d clients of %d, %+v", len(train), n, m.LeftOut)
		}
		return train, len(p.Clients) - n
	}
	few, restOfFew := subset(50, 1)
	many, restOfMany := subset(200, 1)
	if restOfFew != restOfMany {
		t.Errorf("%d and %d clients for measurements", restOfFew, restOfMany)
	}
	for id := range few {
		if !many[id] {
			t.Errorf("%s is one of 50, not of 200", id)
		}
	}
	if other, _ := subset(50, 2); reflect.DeepEqual(few, other) {
		t.Error("another seed gives the same clients")
	}
}

func TestSharesAreKept(t *testing.T) {
	const n = 4000
	p, _, err := importText(t, "a.jsonl", people(t, n), ImportOptions{Shares: [3]float64{0.5, 0.2, 0.3}})
	if err != nil {
		t.Fatal(err)
	}
	for split, share := range map[Split]float64{Train: 0.5, Validation: 0.2, Test: 0.3} {
		if off := math.Abs(float64(len(p.Split(split)))/n - share); off > 5*math.Sqrt(share*(1-share)/n) {
			t.Errorf("%s has %d of %d clients", split, len(p.Split(split)), n)
		}
	}
}

func TestBorders(t *testing.T) {
	long := func(i int) string {
		var words []string
		for k := range 40 {
			words = append(words, fmt.Sprintf("w%dx%d", i, k))
		}
		return strings.Join(words, " ")
	}
	type row = map[string]any
	content := lines(t,
		row{"client_id": "a", "split": "train", "text": "Only here."}, row{"client_id": "a", "split": "train",
			"text": strings.ToUpper(long(1))},
		row{"client_id": "a", "split": "train", "text": long(2) + " and more"}, row{"client_id": "a", "split": "train",
			"text": long(3)},
		row{"client_id": "a", "split": "train", "text": "Only here."},
		row{"client_id": "b", "split": "train", "text": "  " + long(4)},
		row{"client_id": "v", "split": "validation", "text": long(1)}, row{"client_id": "v", "split": "validation",
			"text": long(5)},
		row{"client_id": "t", "split": "test", "text": long(1)}, row{"client_id": "t", "split": "test",
			"text": long(2)},
		row{"client_id": "t", "split": "test", "text": long(4)})
	public := []string{long(5), long(3)}
	kept := func(list ...string) []string { return list }
	for kind, want := range map[string][]string{
		NoDeduplication: kept("a 5", "b 1", "t 3", "v 2"), ExactDuplicates: kept("a 3",
			"t 3"), NearDuplicates: kept("a 2", "t 3"),
	} {
		o := ImportOptions{Deduplicate: kind}
		if kind != NoDeduplication {
			o.Public, o.PublicFile = public, "public.txt"
		}
		p, m, err := importText(t, "a.jsonl", content, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range p.Clients {
			got = append(got, fmt.Sprint(c.ID, " ", len(c.Texts)))
		}
		if !reflect.DeepEqual(got, want) || leftOut(m)+Count(p.Clients).Texts != 11 {
			t.Errorf("%s: %q, want %q; %+v %+v", kind, got, want, m.LeftOut, m.Duplicates)
		}
		if kind != NearDuplicates {
			continue
		}
		if want := []Duplicates{{Test, "public text", 0}, {Validation, "public text", 1}, {Validation, "test", 1},
			{Train, "public text", 1}, {Train, "test", 3}, {Train, "validation", 0}}; !reflect.DeepEqual(m.Duplicates,
			want) {
			t.Errorf("duplicates %+v, want %+v", m.Duplicates, want)
		}
	}
}

// The manifest names what was read and what was asked for.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "out.parquet")
	testfile.Write(t, path, people(t, 30))
	o := ImportOptions{Program: "v1", Deduplicate: ExactDuplicates, Seed: 3, Shape: Shape{MaxTexts: 7}}
	m, err := Import(t.Context(), out, []ImportFile{{Path: path}}, o)
	if err != nil {
		t.Fatal(err)
	}
	var read Manifest
	testfile.ReadJSON(t, out+ManifestSuffix, &read)
	source, err := hashFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read.Sources, []FileHash{source}) || read.Program != "v1" || read.Options.MaxTexts != 7 ||
		read.Options.Seed != 3 || read.Options.Shares != defaultShares || read.TextsRead != 30 ||
		!reflect.DeepEqual(read.Splits, m.Splits) || len(read.Duplicates) != 3 {
		t.Errorf("%+v", read)
	}
	if again, err := hashFile(out); err != nil || again.SHA256 != read.Output.SHA256 {
		t.Errorf("the output's hash is %s, want %s; %v", read.Output.SHA256, again.SHA256, err)
	}
}
