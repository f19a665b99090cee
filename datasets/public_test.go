package datasets

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/internal/parquetio"
	"popri/testkit/testfile"
)

func TestReadPublic(t *testing.T) {
	type row struct {
		Text   *string `parquet:"text,optional"`
		Source string  `parquet:"source"`
	}
	type bare struct {
		Text string `parquet:"text"`
	}
	type list struct {
		Client string   `parquet:"client_id"`
		Texts  []string `parquet:"texts,list"`
	}
	ptr := func(s string) *string { return &s }
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		return testfile.Write(t, filepath.Join(dir, name), content)
	}
	table := func(write func(*bytes.Buffer) error) []byte {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    []Text
		fault   string
	}{
		{"a.txt", []byte("\ufeffone  line\r\n\n\ufeff two\n"), []Text{{"one line", "", "", ""}, {"two", "", "", ""}}, ""},
		{"b.jsonl", []byte(`{"text": "a\nb", "source": "s", "other": 1}` + "\n\n" + `{"text": "c"}`),
			[]Text{{"a b", "s", "", ""}, {"c", "", "", ""}}, ""},
		{"c.parquet", table(func(b *bytes.Buffer) error {
			return parquetio.Write(b, []row{{ptr("x  y"), "s"}, {ptr("z"), ""}}, nil)
		}), []Text{{"x y", "s", "", ""}, {"z", "", "", ""}}, ""},
		{"d.parquet", table(func(b *bytes.Buffer) error { return parquetio.Write(b, []bare{{"x"}}, nil) }),
			[]Text{{"x", "", "", ""}}, ""},
		{"e.parquet",
			table(func(b *bytes.Buffer) error { return parquetio.Write(b, []row{{ptr("x"), "s"}, {nil, "s"}}, nil) }),
			nil, "row 1: text is null"},
		{"f.parquet", table(func(b *bytes.Buffer) error { return parquetio.Write(b, []bare{{"\xff"}}, nil) }), nil,
			"row 0: text or source is not UTF-8"},
		{"g.parquet", table(func(b *bytes.Buffer) error { return parquetio.Write(b, []bare{}, nil) }), nil, "no texts"},
		{"h.parquet", []byte("no"), nil, "too few"},
		{"i.txt", []byte("a\nb\xff\n"), nil, "line 2: text or source is not UTF-8"},
		{"j.txt", []byte("\n"), nil, "no texts"},
		{"k.jsonl", []byte("{\"text\": \"a\"}\n{\"source\": \"a\"}\n"), nil, `line 2: it has no column "text"`},
		{"l.jsonl", []byte(`{"text": " "}`), nil, "line 1: text is blank"},
		{"m.jsonl", []byte("{"), nil, "line 1:"},
		{"n.jsonl", []byte("{\"text\": \"\xff\"}"), nil, "line 1: wrong encoding: not UTF-8"},
		{"p.jsonl", []byte("{\"text\": \"a\"}\n{\"text\": \"a\", \"text\": \"b\"}"), nil,
			`line 2: "text" stands twice`},
		{"q.jsonl", []byte(`{"text": [` + strings.Repeat("1,", 500) + `1]}`), nil, "it is a number, want a text"},
		{"unread.jsonl", []byte(`{"text": "a", "label": [1], "date": {"day": 1}, "split": 3}`),
			[]Text{{"a", "", "", ""}}, ""},
		{"r.jsonl", []byte("\ufeff" + `{"text": "a", "Text": "b", "source": null}`), []Text{{"a", "", "", ""}}, ""},
		{"s." + strings.Repeat("c", 120), []byte("a"), nil, "… (121 bytes), want .parquet"},
		{"t.json", []byte("\ufeff" + `["a  b", "c"]`), []Text{{"a b", "", "", ""}, {"c", "", "", ""}}, ""},
		{"u.json", []byte(`[{"text": "a"}]`), []Text{{"a", "", "", ""}}, ""},
		{"v.json", []byte(`["a", " "]`), nil, "entry 1: text is blank"},
		{"w.json", []byte(`["a", null]`), nil, "entry 1: text is null"},
		{"x.json", []byte(`{"ann": ["a"]}`), nil, "it is a file of clients, not public text"},
		{"y.json", []byte(`[{"client_id": "ann", "text": "a"}]`), nil, "it is a file of clients, not public text"},
		{"z.parquet",
			table(func(b *bytes.Buffer) error { return parquetio.Write(b, []list{{"ann", []string{"a"}}}, nil) }), nil,
			"it is a file of clients"},
		{"o.csv", []byte("a"), nil, `extension ".csv"`},
	} {
		path := file(c.name, c.content)
		got, err := ReadPublic(path)
		if c.fault == "" {
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), path) ||
			!errors.Is(err, parquetio.ErrFormat) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}

func TestPublicMissing(t *testing.T) {
	for _, name := range []string{"none", "none.csv", "none.txt"} {
		if _, err := ReadPublic(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPublicHash(t *testing.T) {
	a := Public{Prompts: []Text{{"a", "s", "", ""}}, Generator: []Text{{"b", "s", "", ""}}}
	b := Public{Prompts: []Text{{"a", "s", "", ""}, {"b", "s", "", ""}}}
	if a.Hash() == b.Hash() || a.Hash() != (&Public{Name: "n", Prompts: a.Prompts, Generator: a.Generator}).Hash() {
		t.Error("the hash does not tell the parts apart, or depends on the name")
	}
}
