package records

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"popri/internal/parquetio"
	"popri/testkit/testfile"
)

func save(t testing.TB, name string, content []byte) string {
	t.Helper()
	return testfile.Write(t, filepath.Join(t.TempDir(), name), content)
}

// list reads a file's records as lines of position, client, split, date, label and text; "-" stands for what is missing.
func list(path string, o Options) (out []string, err error) {
	err = Read(path, o, func(r Record) error {
		line := r.Position.String()
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
	if err := parquetio.Write(&b, []row{{7, []string{"x", "y"}, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), 3},
		{8, nil, time.Time{}, 0}}, nil); err != nil {
		t.Fatal(err)
	}
	path := save(t, "a.parquet", b.Bytes())
	got, err := list(path, Options{Columns: Columns{Client: "author", Text: "body", Date: "at", Label: "stars"}})
	want := "row 0, text 0|7|-|2001-02-03|3|x\nrow 0, text 1|7|-|2001-02-03|3|y\nrow 1, text 0|8|-|0001-01-01|0|-"
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("%q, %v", got, err)
	}
	for want, c := range map[string]Columns{`no column "text"`: {Client: "author"},
		"column body is a list": {Text: "body", Label: "body"}, `no column "who"`: {Client: "who", Text: "body"},
		"holds INT": {Text: "stars"}} {
		if _, err := list(path, Options{Columns: c}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// TestParquetIDs: whole numbers of any type are IDs; what pandas makes of whole numbers with gaps, too.
func TestParquetIDs(t *testing.T) {
	type row struct {
		Number float64  `parquet:"number"`
		Gap    *float64 `parquet:"gap,optional"`
		Half   float32  `parquet:"half"`
		Price  int64    `parquet:"price,decimal(0:9)"`
		Cents  int64    `parquet:"cents,decimal(2:9)"`
		Text   string   `parquet:"text"`
	}
	var b bytes.Buffer
	twelve := 12.0
	if err := parquetio.Write(&b, []row{{3, &twelve, 0.5, -4, 1, "x"}, {1 << 52, nil, 1, 99, 1, "y"}}, nil); err != nil {
		t.Fatal(err)
	}
	path := save(t, "a.parquet", b.Bytes())
	for client, want := range map[string]string{
		"number": "row 0|3|-|-|-|x\nrow 1|4503599627370496|-|-|-|y", "gap": "row 0|12|-|-|-|x\nrow 1|-|-|-|-|y",
		"price": "row 0|-4|-|-|-|x\nrow 1|99|-|-|-|y"} {
		got, err := list(path, Options{Columns: Columns{Client: client}})
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, %v", client, got, err)
		}
	}
	for client, want := range map[string]string{"half": "row 0: client is 0.5, want a whole number", "cents": "DECIMAL"} {
		if _, err := list(path, Options{Columns: Columns{Client: client}}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", client, err, want)
		}
	}
}

// A record that never ends is refused before it fills the memory.
func TestRecordsAreBounded(t *testing.T) {
	large := bytes.Repeat([]byte("x"), mostBytes+1<<20)
	for name, c := range map[string][2]string{"a.csv": {"client_id,text\nann,\"x\ny\"\nbob,\"", "line 4"},
		"a.jsonl": {"\n" + `{"text": "`, "line 2"}, "a.json": {`["x", "`, "entry 1"}} {
		_, err := list(save(t, name, append([]byte(c[0]), large...)), Options{})
		if err == nil || !strings.Contains(err.Error(), c[1]+": a record is larger than 64 MiB") {
			t.Errorf("%s: %v, want %s", name, err, c[1])
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

// A character may be split between two reads.
func TestCharactersAcrossReads(t *testing.T) {
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("𝄞", 50_000)
		got, err := list(save(t, "a.json", []byte(`["`+text+`"]`)), Options{})
		if err != nil || got[0] != "entry 0|-|-|-|-|"+text {
			t.Errorf("shift %d: %v", shift, err)
		}
		if _, err := list(save(t, "a.json", []byte(`["`+text[:len(text)-1]+`"]`)), Options{}); err == nil ||
			!strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("shift %d: half a character: %v", shift, err)
		}
	}
}

// Cells are bounded too: a row of commas and a list of short texts cost more memory than their bytes.
func TestCellsAreBounded(t *testing.T) {
	commas := strings.Repeat(",", 3<<20)
	var columns strings.Builder
	columns.WriteString("text")
	for i := range mostColumns {
		fmt.Fprint(&columns, ",", i)
	}
	for want, content := range map[string]string{
		"line 1: a record has more than 1048576 delimiters": "text" + commas,
		"line 3: a record has more than 1048576 delimiters": "text,b\nx,\"y\nz" + commas + "\"\n",
		"line 1: it names 65537 columns, want at most":      columns.String() + "\nx\n",
	} {
		if _, err := list(save(t, "a.csv", []byte(strings.Replace(content, "\"y\nz", "y\nz", 1))),
			Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	path := save(t, "a.jsonl", []byte(`{"text": [`+strings.Repeat(`"",`, 1<<21)+`""]}`))
	n, live := 0, new(runtime.MemStats)
	err := Read(path, Options{}, func(Record) error {
		if n++; n == 1<<20 {
			runtime.GC()
			runtime.ReadMemStats(live)
		}
		return nil
	})
	if err != nil || n != 1<<21+1 || live.HeapAlloc > 48<<20 {
		t.Errorf("%d texts of a list with %d MiB, %v", n, live.HeapAlloc>>20, err)
	}
}

// One number is one client, however it is written; half a character is refused, not replaced.
func TestJSONIdentities(t *testing.T) {
	for id, want := range map[string]string{`1`: "1", `1.0`: "1", `10e-1`: "1", `-0`: "0", `"1"`: "1",
		`12345678901234567890`: "12345678901234567890", `true`: "true", `"\ud83d\ude42"`: "🙂", `"1.0"`: "1.0"} {
		got, err := list(save(t, "a.jsonl", []byte(`{"client_id": `+id+`, "text": "x"}`)), Options{})
		if err != nil || got[0] != "line 1|"+want+"|-|-|-|x" {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	for content, want := range map[string]string{
		`[{"client_id": 1.5, "text": "x"}]`:       "entry 0: client is a number that is not whole",
		`[{"client_id": 1e300, "text": "x"}]`:     "entry 0: client is a number that is not whole",
		`[{"client_id": "a", "text": "x\ud800"}]`: "entry 0: the escape at byte 29 is half of a surrogate pair",
		`["\udc00"]`:                               "entry 0: the escape at byte 1 is half",
		`{"a": ["x", "\ud800y"]}`:                  "key 0, text 1: the escape at byte 1 is half",
		`{"a\ud800": ["x"]}`:                       "key 0: the client's name holds U+FFFD",
		`[{"text": ` + strings.Repeat("[", 20_000): "entry 0: the JSON is nested more than 10000 deep",
		`[{"text": "x", "other": ]}`:               "damaged at byte",
		"[\"x\",\n\"y\",\n\n\"\xff\"]":             "line 4: wrong encoding: not UTF-8: byte 13",
	} {
		if _, err := list(save(t, "a.json", []byte(content)), Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", content, err, want)
		}
	}
}

// What people's files look like: delimiters, encodings, escapes, nested fields.
func TestDialects(t *testing.T) {
	utf16 := []byte("\xff\xfe")
	for _, c := range "client_id\ttext\nann\té\n" {
		utf16 = append(utf16, byte(c), byte(c>>8))
	}
	for _, c := range []struct {
		name, content, want string
		o                   Options
	}{
		{"a.csv", "client_id;date;text\nann;;\"x; \"\"y\"\"\"\n", `line 2|ann|-||-|x; "y"`, Options{}},
		{"a.csv", "sep=;\r\nclient_id;date;text\r\nann;;x, y\r\n", "line 3|ann|-||-|x, y", Options{}},
		{"a.csv", "sep=;\nclient_id,text\nann,x;\n", "line 3|ann|-|-|-|x;",
			Options{Dialect: Dialect{Delimiter: "comma"}}},
		{"a.csv", "client_id\ttext\nann\tx, y\n", "line 2|ann|-|-|-|x, y", Options{}},
		{"a.csv", "\"a;b;c\",text\nx,y\n", "line 2|-|-|-|-|y", Options{}},
		{"a.csv", "client_id~text\nann~x,y\n", "line 2|ann|-|-|-|x,y", Options{Dialect: Dialect{Delimiter: "~"}}},
		{"a.tsv", "client_id|text\nann|x\n", "line 2|ann|-|-|-|x", Options{Dialect: Dialect{Delimiter: "pipe"}}},
		{"a.csv", "client_id,text\nann,d\xe9j\xe0\n", "line 2|ann|-|-|-|déjà",
			Options{Dialect: Dialect{Encoding: "latin1"}}},
		{"a.csv", string(utf16), "line 2|ann|-|-|-|é", Options{}},
		{"a.jsonl", "{\"text\": \"\x93x\x94\"}", "line 1|-|-|-|-|“x”",
			Options{Dialect: Dialect{Encoding: "windows-1252"}}},
		{"a.csv", "text\nx\\", `line 2|-|-|-|-|x\`, Options{Dialect: Dialect{Backslash: true}}},
		{"a.csv", "\"text\"\n\"a \\\"b\\\" \\\\ c\\d\"\n", `line 2|-|-|-|-|a "b" \ c\d`,
			Options{Dialect: Dialect{Backslash: true}}},
		{"a.jsonl", "\ufeff{\"text\": \"x\", \"n\": NaN}\n\ufeff{\"text\": \"NaN, -Infinity\", \"n\": [-Infinity]}",
			"line 1|-|-|-|-|x\nline 2|-|-|-|-|NaN, -Infinity", Options{}},
		{"a.json", `[{"text": "x\"NaN", "n": NaN},{"n":-Infinity,"text": "NaN \\"}, {"text": "y", "n": [-1, Infinity]}]`,
			"entry 0|-|-|-|-|x\"NaN\nentry 1|-|-|-|-|NaN \\\nentry 2|-|-|-|-|y", Options{}},
		{"a.csv", "\ufeffclient_id,text\nann,x\n\ufeffclient_id,text\nbob,y\n", "line 2|ann|-|-|-|x\nline 4|bob|-|-|-|y", Options{}},
		{"a.jsonl", `{"a": {"b": {"id": 7}, "n": null}, "a.c": "x"}`, "line 1|7|-|-|-|x",
			Options{Columns: Columns{Client: "a.b.id", Text: "a.c", Date: "a.n.y"}}},
	} {
		got, err := list(save(t, c.name, []byte(c.content)), c.o)
		if err != nil || strings.Join(got, "\n") != c.want {
			t.Errorf("%s %q: %q, %v, want %q", c.name, c.content, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name, content, want string
		o                   Options
	}{
		{"a.csv", "who;when\nann;x\n", `no column "text" for the text; it has who, when`, Options{}},
		{"a.jsonl", `{"a": {"b": 1, "c": {}}, "d": "x"}`, `no column "text" for the text; it has a.b, a.c, d`,
			Options{}},
		{"a.csv", "a private text\nann\n", "it has (a name of 14 bytes)", Options{}},
		{"a.csv", "\x1b[2Jx,y\nann,z\n", "it has (a name of 5 bytes), y", Options{}},
		{"a.csv", "text\nx\n", `the delimiter is "ab", want one sign`, Options{Dialect: Dialect{Delimiter: "ab"}}},
		{"a.csv", "text\nx\n", `the encoding is "klingon", want`, Options{Dialect: Dialect{Encoding: "klingon"}}},
		{"a.csv", "text\nx\n\x81\xff\n", "line 3: wrong encoding: a character is none of gbk",
			Options{Dialect: Dialect{Encoding: "gbk"}}},
		{"a.csv", "text\n\"a \\\"b\"\n", "line 2: column 5: a quotation mark inside a cell is not doubled", Options{}},
	} {
		if _, err := list(save(t, c.name, []byte(c.content)), c.o); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.name, c.content, err, c.want)
		}
	}
}

// A bad record is passed over where others can be read behind it.
func TestBadRecordsArePassedOver(t *testing.T) {
	for name, content := range map[string]string{
		"a.csv":   "text,b\nx,1\ny\n\"z\" z,2\nw,3\n",
		"a.jsonl": `{"text": "x"}` + "\n{\n" + `{"text": 3}` + "\n" + `{"text": "w"}`,
		"a.json":  `["x", 3, {}, "w"]`,
	} {
		var bad []string
		got, err := list(save(t, name, []byte(content)), Options{Bad: func(p Position, e *Error) error {
			bad = append(bad, p.String()+": "+e.Reason())
			return nil
		}})
		if err != nil || len(got) != 2 || !strings.HasSuffix(got[1], "w") || len(bad) != 2 {
			t.Errorf("%s: %q, %q, %v", name, got, bad, err)
		}
	}
}

func TestPlainText(t *testing.T) {
	for page, want := range map[string]string{
		"<html><head><title>T</title></head><body><!-- x > y --><p>Tom &amp; <b>J</b>erry<br/>1 &lt; 2</p>" +
			"<SCRIPT>if (a<b) {}</SCRIPT><td>a</td><td>b</td> i < j": "Tom & Jerry 1 < 2 a b i < j",
		"<head><script>x</script><style>y</style><title>T</title></head><body>a":   "a",
		"<head><meta charset=utf-8><title>T</title><p>no end of the head<script>x": "no end of the head",
	} {
		if got := strings.Join(strings.Fields(PlainText(page)), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("csv", []byte("client_id,text\nann,\"x\"\n"))
	f.Add("tsv", []byte("text\tlabel\nx\ty\n"))
	f.Add("jsonl", []byte(`{"client_id": true, "text": ["x", null], "date": 3}`))
	f.Add("json", []byte(`{"z": ["1", null]}`))
	f.Add("parquet", []byte("PAR1PAR1PAR1"))
	f.Add("csv", []byte("a;b\nann;\"x\"\" ; y\"\n\nbob\n"))
	f.Add("jsonl", []byte(`{"client_id": 1.0, "text": {"body": "\ud83d\ude42"}}`+"\n{"))
	f.Add("json", []byte(`[{"text": [`+strings.Repeat("[", 30)))
	f.Add("csv", []byte("\xff\xfet\x00e\x00x\x00t\x00\n\x00x\x00"))
	path := filepath.Join(f.TempDir(), "in")
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		if format == Folder {
			return
		}
		testfile.Write(t, path, content)
		records := 0
		dialect := Dialect{Format: format, Backslash: len(content)%2 == 1,
			Encoding: []string{"", "", "", "utf-16", "shift_jis"}[len(content)%5]}
		err := Read(path, Options{Dialect: dialect}, func(Record) error { records++; return nil })
		if err != nil && !strings.Contains(err.Error(), path) && format != "" && records > 0 {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
