package clients

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/datasets/records"
	"popri/internal/parquetio"
	"popri/testkit/testfile"
)

// importText imports one file of the given name and content.
func importText(t testing.TB, name, content string, o ImportOptions) (*Population, *Manifest, error) {
	t.Helper()
	path := testfile.Write(t, filepath.Join(t.TempDir(), name), content)
	return importFiles(t, []ImportFile{{Path: path}}, o)
}

// importFiles imports files and reads the result back. Nothing may be left in the folder but the output and its
// manifest, and after an error nothing at all.
func importFiles(t testing.TB, files []ImportFile, o ImportOptions) (*Population, *Manifest, error) {
	t.Helper()
	o.Deduplicate = cmp.Or(o.Deduplicate, NoDeduplication)
	out := filepath.Join(t.TempDir(), "out.parquet")
	m, err := Import(t.Context(), out, files, o)
	left, _ := os.ReadDir(filepath.Dir(out))
	if err != nil {
		if len(left) > 0 {
			t.Errorf("after an error there is %v", left)
		}
		return nil, nil, err
	}
	if len(left) != 2 {
		t.Errorf("there are %v", left)
	}
	p, err := Read(out)
	if err != nil {
		t.Fatal(err)
	}
	info := p.Info()
	if !reflect.DeepEqual(info.Splits, m.Splits) {
		t.Errorf("the manifest counts %v, the file has %v", m.Splits, info.Splits)
	}
	return p, m, nil
}

func TestImportFormats(t *testing.T) {
	columns := records.Columns{Client: "author", Text: "body", Date: "created", Label: "topic"}
	want := []Client{
		{ID: "ann", Split: Train, Texts: []string{"one", "two,\nlines"}, Dates: []string{"2001-02-03", "2001-02-04"},
			Label: "x"},
		{ID: "bob", Split: Test, Texts: []string{"three"}},
	}
	for name, content := range map[string]string{
		"a.jsonl": `{"author": "ann", "body": "one", "created": "2001-02-03T10:00:00Z", "topic": "x", "split": "train"}` +
			"\n\n" +
			`{"author": "bob", "body": "three", "created": null, "topic": "", "split": "test", "more": [1]}` + "\n" +
			`{"author": "ann", "body": "two,\nlines", "created": "2001-02-04", "topic": "x", "split": "train"}`,
		"a.csv": "\ufeffauthor,body,created,topic,split,more\nann,one,2001-02-03 " +
			"10:00:00,x,train,\nbob,three,,,test,1\nann,\"two,\nlines\",2001-02-04,x,train,2\n",
		"a.tsv": "body\tsplit\tauthor\ttopic\tcreated\none\ttrain\tann\tx\t2001-02-03\nthree\ttest\tbob\t\t\n\"two,\nlines\"\ttrain\tann\tx\t2001-02-04\n",
		"a.json": `[{"author": "ann", "body": "one", "created": "2001-02-03", "topic": "x", "split": "train"},
			{"author": "ann", "body": ["two,\nlines"], "created": "2001-02-04", "topic": "x", "split": "train"},
			{"author": "bob", "body": "three", "created": "", "topic": null, "split": "test"}]`,
	} {
		p, m, err := importText(t, name, content, ImportOptions{Columns: columns})
		if err != nil || !reflect.DeepEqual(p.Clients, want) || m.TextsRead != 3 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestImportFolder(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"ann.txt": "One  two.\n\nThree.", "bob/1.md": "In\na folder.",
		"bob/deep/2.md": "Deeper.", ".x": "no"} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	p, _, err := importFiles(t, []ImportFile{{dir, Train}}, ImportOptions{})
	want := []Client{{ID: "ann", Split: Train, Texts: []string{"One two.", "Three."}},
		{ID: "bob", Split: Train, Texts: []string{"In a folder.", "Deeper."}}}
	if err != nil || !reflect.DeepEqual(p.Clients, want) {
		t.Errorf("%+v, %v", p, err)
	}
	testfile.Write(t, filepath.Join(dir, "ann.md"), "x")
	if _, _, err := importFiles(t, []ImportFile{{dir, Train}}, ImportOptions{}); err == nil ||
		!strings.Contains(err.Error(), `both be client "ann"`) {
		t.Error(err)
	}
}

// Bad rows are counted by what is wrong with them, and left out if they are few.
func TestImportSkipsBadRowsIfAsked(t *testing.T) {
	content := "client_id,text,date\nann,x,2001-02-03\nann,,\n,y,\nbob\nbob,z,yesterday\nbob,w,\n"
	for skip, want := range map[string]string{"4": "", "67%": "",
		"3":   "; and 1 more; 4 of 6 rows are bad and 3 may be (bad row: text is blank: 1 texts, ",
		"50%": "4 of 6 rows are bad and 3 may be", "": "line 5: column 1: wrong number of fields"} {
		p, m, err := importText(t, "a.csv", content, ImportOptions{SkipBad: skip})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", skip, err, want)
			}
			continue
		}
		if err != nil || len(p.Clients) != 2 || len(m.LeftOut) != 4 || leftOut(m) != 4 || m.TextsRead != 6 {
			t.Errorf("%q: %+v, %+v, %v", skip, p, m, err)
		}
	}
	for _, skip := range []string{"-1", "1.5", "101%", "NaN", "%"} {
		if _, _, err := importText(t, "a.csv", content, ImportOptions{SkipBad: skip}); err == nil ||
			!strings.Contains(err.Error(), "the most bad rows are") {
			t.Errorf("%q: %v", skip, err)
		}
	}
}

// A client is in memory as a whole, so its texts are bounded, before and after they are cut into spans.
func TestClientsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("client_id,text\n")
	for range mostTexts/2 + 1 {
		b.WriteString("ann,x y\n")
	}
	want := "bad file: the client of line 2 has more than 1048576 texts"
	if _, _, err := importText(t, "a.csv", b.String(), ImportOptions{Shape: Shape{SpanWords: 1}}); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	list := `{"ann": [` + strings.Repeat(`"x",`, mostTexts) + `"x"]}`
	want = "bad file: the client of key 0, text 0 has more than 1048576 texts"
	if _, _, err := importText(t, "a.json", list, ImportOptions{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// LargeFedBench: clients with their texts for training, lists of texts for evaluation.
func TestImportPublished(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		return testfile.Write(t, filepath.Join(dir, name), content)
	}
	train := file("train.json", "\ufeff"+`{"z": ["1", "2"], "a": ["3"]}`)
	p, _, err := importFiles(t, []ImportFile{{train, Train}, {file("eval.json", `["4", "5"]`), Validation},
		{file("test.json", `{"t": ["6"]}`), Test}}, ImportOptions{})
	want := []Client{{ID: "a", Split: Train, Texts: []string{"3"}},
		{ID: "eval/0000000", Split: Validation, Texts: []string{"4"}},
		{ID: "eval/0000001", Split: Validation, Texts: []string{"5"}}, {ID: "t", Split: Test, Texts: []string{"6"}},
		{ID: "z", Split: Train, Texts: []string{"1", "2"}}}
	if err != nil || !reflect.DeepEqual(p.Clients, want) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, _, err := importFiles(t, []ImportFile{{file("list.json", `["4", "5"]`), Train}},
		ImportOptions{}); err == nil || !strings.Contains(err.Error(), "entry 0 names no client") {
		t.Errorf("a list for training: %v", err)
	}
	for content, want := range map[string]string{
		``:                         "not JSON",
		`3`:                        "neither an object of clients nor a list",
		`{"a": ["x"], "b" 3}`:      "damaged at byte",
		`{"a": "b"}`:               "key 0: its value is no list: want a list of texts",
		`{"a": [1]}`:               "key 0, text 0: it is a number, want a text",
		`{"a": ["x"], "a": ["y"]}`: "key 1: it is the same client as key 0",
		`{"a": []}`:                "key 0: the client has no texts",
		`{"a": [null]}`:            "key 0, text 0: text is null",
		`{"a": ["x", " "]}`:        "key 0, text 1: text is blank (1 bytes)",
		`{"": ["x"]}`:              "client_id is blank",
		`{"a": ["x"]`:              "does not end",
		`{"a": ["x"]} {}`:          "something follows",
		`["a", 3]`:                 "entry 1: it is a number, want a text or an object",
		`["a", ""]`:                "entry 1: text is blank",
		`[]`:                       "no texts",
		`{}`:                       "no texts",
		"{\"a\": [\"\xff\"]}":      "not UTF-8: byte 8 is ill-formed",
		`{"z": ["x"]}`: `key 0, text 0: split is "validation", but key 0, text 0 of ` + train +
			` puts the client in "train"`,
	} {
		path := file("bad.json", content)
		_, _, err := importFiles(t, []ImportFile{{train, Train}, {path, Validation}}, ImportOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
			!errors.Is(err, parquetio.ErrFormat) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	for _, c := range []struct {
		name, content, want string
		o                   ImportOptions
	}{
		{"a.txt", "x", "extension \".txt\"; name the format", ImportOptions{}},
		{"a.csv", "", "it is empty", ImportOptions{}},
		{"a.csv", "text,text\n", "columns 1 and 2 have the same name", ImportOptions{}},
		{"a.csv", "client_id,text,s\n", "want one", ImportOptions{Columns: records.Columns{Split: "s"},
			Shares: [3]float64{.8, .1, .1}}},
		{"a.csv", "client_id,text\nann,\"x\n", "line 2: column", ImportOptions{}},
		{"a.csv", "client_id,text\nann\n", "line 2: column 1: wrong number of fields", ImportOptions{}},
		{"a.csv", "client_id,text\nann,x\nbob,\xff\n", "not UTF-8: byte 25 is ill-formed", ImportOptions{}},
		{"a.csv", "client_id,text\nann,x\n", `it has no column "body" for the text`,
			ImportOptions{Columns: records.Columns{Text: "body"}}},
		{"a.csv", "who,text\nann,x\n", "line 2 names no client", ImportOptions{}},
		{"a.csv", "client_id,text\nann,x\nbob, \n", "line 3: text is blank (1 bytes)", ImportOptions{}},
		{"a.csv", "client_id,text,date\nann,x,12/31/1999\n", "line 2: date is no date", ImportOptions{}},
		{"a.csv", "client_id,text,split\nann,x,dev\n", "line 2: split is none of", ImportOptions{}},
		{"a.csv", "client_id,text,split\nann,x,train\nann,y,test\n",
			`line 3: split is "test", but line 2 puts the client in "train"`, ImportOptions{}},
		{"a.jsonl", `{"client_id": "a", "text": "x", "split": "train"}` + "\n" + `{"client_id": "b", "text": "x"}`,
			"line 2: some texts have a split", ImportOptions{}},
		{"a.jsonl", `{"client_id": "a", "text": 3}`, "line 1: the text is a number", ImportOptions{}},
		{"a.jsonl", `{"client_id": "a", "text": "x"`, "line 1: ", ImportOptions{}},
		{"a.jsonl", `{"client_id": "a"}`, `line 1: it has no column "text"`, ImportOptions{}},
		{"a.jsonl", `{"client_id": "a", "text": "x"}`, "100 train clients are asked for",
			ImportOptions{Shape: Shape{Clients: 100}}},
		{"a.jsonl", `{"client_id": "a", "text": "x"}`, "no date: 1 texts", ImportOptions{Shape: Shape{From: "2000"}}},
		{"a.jsonl", `{}`, `the date to is "2000-13"`, ImportOptions{Shape: Shape{To: "2000-13"}}},
		{"a.jsonl", `{}`, "before they begin", ImportOptions{Shape: Shape{From: "2001", To: "2000-12"}}},
		{"a.jsonl", `{}`, "add up to 0.9", ImportOptions{Shares: [3]float64{0.5, 0.2, 0.2}}},
		{"a.jsonl", `{}`, "by date or by shares", ImportOptions{Shares: defaultShares, Shape: Shape{TestFrom: "2000"}}},
		{"a.jsonl", `{}`, "at least 3 and at most 2", ImportOptions{Shape: Shape{MinTexts: 3, MaxTexts: 2}}},
		{"a.jsonl", `{}`, `deduplication is "fuzzy"`, ImportOptions{Deduplicate: "fuzzy"}},
	} {
		_, _, err := importText(t, c.name, c.content, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.name, c.content, err, c.want)
		}
	}
}

func TestImportSkipsBlankTextsIfAsked(t *testing.T) {
	p, m, err := importText(t, "a.csv", "client_id,text,split\nann,x,train\nann, ,train\nbob,,train\n",
		ImportOptions{SkipBlank: true})
	if err != nil || len(p.Clients) != 1 || !reflect.DeepEqual(m.LeftOut, LeftOut{{blankText, 2, 0}}) {
		t.Errorf("%+v, %+v, %v", p, m, err)
	}
}

func TestImportStopsWhenCancelled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	content := strings.Repeat(`{"client_id": "a", "text": "x"}`+"\n", 2000)
	testfile.Write(t, path, content)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Import(ctx, filepath.Join(dir, "out"), []ImportFile{{Path: path}},
		ImportOptions{Deduplicate: NoDeduplication})
	if left, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(left) != 1 {
		t.Errorf("%v, %v is left", err, left)
	}
}

// The bytes depend on files and options, not on how much fits into memory; another seed draws another split.
func TestImportIsDeterministic(t *testing.T) {
	var b bytes.Buffer
	for i := range 3000 {
		record := map[string]any{"client_id": i * 7919 % 501, "text": strings.Repeat("word ", i%9+1), "label": i % 3}
		if err := json.NewEncoder(&b).Encode(record); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	path := testfile.Write(t, filepath.Join(dir, "a.jsonl"), b.Bytes())
	bytesOf := func(o ImportOptions) (out [2]string) {
		file := filepath.Join(dir, "out.parquet")
		o.Deduplicate = ExactDuplicates
		if _, err := Import(t.Context(), file, []ImportFile{{Path: path}}, o); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{file, file + ManifestSuffix} {
			out[i] = string(testfile.Read(t, name))
		}
		return out
	}
	one := bytesOf(ImportOptions{})
	if two := bytesOf(ImportOptions{Memory: 30_000}); one != two {
		t.Error("a sort in many runs gives other bytes")
	}
	if other := bytesOf(ImportOptions{Seed: 1}); one == other {
		t.Error("another seed gives the same bytes")
	}
}

func FuzzImport(f *testing.F) {
	f.Add("csv", []byte("client_id,text,split\nann,\"x\ny\",train\n"))
	f.Add("tsv", []byte("client_id\ttext\nann\tx\n"))
	f.Add("jsonl", []byte(`{"client_id": "a", "text": ["x", null], "date": "2001-02-03 04:05:06"}`))
	f.Add("json", []byte(`{"z": ["1", "2"], "a": ["3"]}`))
	f.Add("json", []byte(`[{"client_id": 3, "text": "x"}, "y"]`))
	f.Add("jsonl", []byte(`{"client_id": 1.0, "text": "x", "date": 1627812774}`+"\n{\n"+
		`{"client_id": 1, "text": "y", "date": "2001-02"}`))
	f.Add("mbox", []byte("From x\nFrom: a@b.example\n\nhello\n\nFrom y\n\n> x\nbye\n"))
	f.Add("csv", []byte("client_id;text;date\nann;x;20010203\nann\n;\"y\"z\n"))
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		if format == records.Folder {
			return
		}
		path := testfile.Write(t, filepath.Join(t.TempDir(), "in"), content)
		p, m, err := importFiles(t, []ImportFile{{Path: path}},
			ImportOptions{Dialect: records.Dialect{Format: format}, SkipBlank: true, SkipBad: "50%",
				HTML: len(content)%2 == 0})
		if err != nil {
			return
		}
		if n := Count(p.Clients); int64(n.Texts)+int64(leftOut(m)) != m.TextsRead {
			t.Errorf("%d texts were read, %d written, %v", m.TextsRead, n.Texts, m.LeftOut)
		}
	})
}

func leftOut(m *Manifest) (n int) {
	for _, c := range m.LeftOut {
		n += c.Texts
	}
	for _, d := range m.Duplicates {
		n += d.Texts
	}
	return n
}

// Each split has exactly as many clients as were asked for, whatever the format.
func TestExactCounts(t *testing.T) {
	var csv, jsonl strings.Builder
	csv.WriteString("client_id,text\n")
	for i := range 60 {
		fmt.Fprintf(&csv, "c%02d,text %d\n", i, i)
		fmt.Fprintf(&jsonl, `{"client_id": "c%02d", "text": "text %d"}`+"\n", i, i)
	}
	o := ImportOptions{Shares: [3]float64{0.4, 0.3, 0.3},
		Shape: Shape{Clients: 4, ValidationClients: 2, TestClients: 3}}
	var first *Population
	for name, content := range map[string]string{"a.csv": csv.String(), "a.jsonl": jsonl.String()} {
		p, m, err := importText(t, name, content, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Splits[Train].Clients != 4 || m.Splits[Validation].Clients != 2 || m.Splits[Test].Clients != 3 {
			t.Errorf("%s: %+v", name, m.Splits)
		}
		if first == nil {
			first = p
		} else if !reflect.DeepEqual(first.Clients, p.Clients) {
			t.Errorf("%s has other clients", name)
		}
	}
	for want, bad := range map[string]func(*ImportOptions){
		"100 test clients are asked": func(o *ImportOptions) { o.TestClients = 100 },
		"validation clients is -1":   func(o *ImportOptions) { o.ValidationClients = -1 },
	} {
		wrong := o
		bad(&wrong)
		if _, _, err := importText(t, "a.csv", csv.String(), wrong); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestFilteredUnit: filters that decide how many clients there are, which is published, are part of the unit of privacy.
func TestFilteredUnit(t *testing.T) {
	const rows = "client_id,text\na,one text\na,another text\nb,one text\n"
	for want, o := range map[string]ImportOptions{
		"a client is one client_id of x.csv": {},
		"the import left out clients with fewer than 2 texts, so the number of clients, which is published without noise, " +
			"depends on texts": {Shape: Shape{MinTexts: 2}},
		"the import left out clients with fewer than 2 texts and near duplicates, so": {Shape: Shape{MinTexts: 2}, Deduplicate: NearDuplicates},
	} {
		p, m, err := importText(t, "x.csv", rows, o)
		if err != nil || !strings.Contains(p.Unit, want) || m.Unit != p.Unit || (o.MinTexts == 0) != (p.Unit == want) {
			t.Errorf("%+v: %q, %q (%v), want %q", o, p.Unit, m.Unit, err, want)
		}
	}
}
