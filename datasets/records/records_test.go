package records

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/internal/parquetio"
)

func save(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// list reads a file's records as lines of place, client, split, date, label and text; "-" stands for what is missing.
func list(path string, o Options) (out []string, err error) {
	err = Read(path, o, func(r Record) error {
		line := r.Place.String()
		for _, c := range []Cell{r.Client, r.Split, r.Date, r.Label, r.Text} {
			if c.Null {
				c.Value = "-"
			}
			line += "|" + c.Value
		}
		out = append(out, line)
		return nil
	})
	return out, err
}

func TestCompressedFilesReadAsPlainOnes(t *testing.T) {
	content := []byte("client_id,text\nann,one\nbob,\"a \"\"b\"\"\"\n")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(content)
	w.Close()
	want := "line 2|ann|-|-|-|one\nline 3|bob|-|-|-|a \"b\""
	for name, content := range map[string][]byte{"a.csv": content, "a.csv.gz": b.Bytes()} {
		got, err := list(save(t, name, content), Options{})
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := list(save(t, "a.csv.gz", b.Bytes()[:b.Len()-12]), Options{}); !errors.Is(err, parquetio.ErrFormat) {
		t.Errorf("a file that is cut off: %v", err)
	}
	if _, err := list(save(t, "a.csv.gz", content), Options{}); !errors.Is(err, parquetio.ErrFormat) {
		t.Errorf("a file that is not compressed: %v", err)
	}
}

// A hub's columns have other names and types.
func TestParquetColumns(t *testing.T) {
	type row struct {
		Author int64     `parquet:"author"`
		Body   []string  `parquet:"body,list"`
		At     time.Time `parquet:"at,timestamp(microsecond)"`
		Stars  int32     `parquet:"stars"`
	}
	var b bytes.Buffer
	if err := parquetio.Write(&b, []row{{7, []string{"x", "y"}, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), 3}, {8, nil, time.Time{}, 0}}, nil); err != nil {
		t.Fatal(err)
	}
	path := save(t, "a.parquet", b.Bytes())
	got, err := list(path, Options{Columns: Columns{Client: "author", Text: "body", Date: "at", Label: "stars"}})
	want := "row 0, text 0|7|-|2001-02-03|3|x\nrow 0, text 1|7|-|2001-02-03|3|y\nrow 1, text 0|8|-|0001-01-01|0|-"
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("%q, %v", got, err)
	}
	for want, c := range map[string]Columns{`no column "text"`: {Client: "author"}, "column body is a list": {Text: "body", Label: "body"},
		`no column "who"`: {Client: "who", Text: "body"}, "holds INT": {Text: "stars"}} {
		if _, err := list(path, Options{Columns: c}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// A record that never ends is refused before it fills the memory.
func TestRecordsAreBounded(t *testing.T) {
	large := bytes.Repeat([]byte("x"), mostBytes+1<<20)
	for name, head := range map[string]string{"a.csv": "client_id,text\nann,\"", "a.jsonl": `{"text": "`, "a.json": `["`} {
		_, err := list(save(t, name, append([]byte(head), large...)), Options{})
		if err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var many bytes.Buffer // many small ones are not
	for i := range 20_000 {
		fmt.Fprintf(&many, "{\"text\": \"%s %d\"}\n", strings.Repeat("word ", 800), i)
	}
	if many.Len() < mostBytes {
		t.Fatalf("%d bytes are too few", many.Len())
	}
	if got, err := list(save(t, "a.jsonl", many.Bytes()), Options{}); err != nil || len(got) != 20_000 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// A character may lie across two reads.
func TestCharactersAcrossReads(t *testing.T) {
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("𝄞", 50_000)
		got, err := list(save(t, "a.json", []byte(`["`+text+`"]`)), Options{})
		if err != nil || got[0] != "entry 0|-|-|-|-|"+text {
			t.Errorf("shift %d: %v", shift, err)
		}
		if _, err := list(save(t, "a.json", []byte(`["`+text[:len(text)-1]+`"]`)), Options{}); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("shift %d: half a character: %v", shift, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("csv", []byte("client_id,text\nann,\"x\"\n"))
	f.Add("tsv", []byte("text\tlabel\nx\ty\n"))
	f.Add("jsonl", []byte(`{"client_id": true, "text": ["x", null], "date": 3}`))
	f.Add("json", []byte(`{"z": ["1", null]}`))
	f.Add("parquet", []byte("PAR1PAR1PAR1"))
	path := filepath.Join(f.TempDir(), "in")
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		if format == Folder {
			return
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		records := 0
		err := Read(path, Options{Format: format}, func(Record) error { records++; return nil })
		if err != nil && !strings.Contains(err.Error(), path) && format != "" && records > 0 {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
