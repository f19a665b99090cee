package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"popri/internal/parquetio"
	"popri/testkit/testfile"
)

// nullableRow has every column nullable, as files from elsewhere often have.
type nullableRow struct {
	Client *string `parquet:"client_id,optional"`
	Split  *string `parquet:"split,optional"`
	Date   *string `parquet:"date,optional"`
	Label  *string `parquet:"label,optional"`
	Text   *string `parquet:"text,optional"`
}

type listRow struct {
	Client string    `parquet:"client_id"`
	Date   *string   `parquet:"date,optional"`
	Label  *string   `parquet:"label,optional"`
	Split  string    `parquet:"split"`
	Texts  []*string `parquet:"texts,optional,list"`
}

func ptr(s string) *string { return &s }

func good() []nullableRow {
	var rows []nullableRow
	for i := range 24 {
		split := []string{"train", "train", "validation", "test"}[i/6]
		rows = append(rows, nullableRow{ptr(fmt.Sprintf("c/%03d", i/6)), &split, ptr("1999-12-31"), nil,
			ptr(fmt.Sprintf("text number %d of the set", i))})
	}
	return rows
}

func save[Row any](t testing.TB, rows []Row) string {
	t.Helper()
	var b bytes.Buffer
	if err := parquetio.Write(&b, rows, nil); err != nil {
		t.Fatal(err)
	}
	return saveBytes(t, b.Bytes())
}

func saveBytes(t testing.TB, b []byte) string {
	t.Helper()
	return testfile.Write(t, filepath.Join(t.TempDir(), "clients.parquet"), b)
}

func TestCheckNamesEveryBadRow(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(rows []nullableRow)
		want   []string // of Check, in order; a trailing "?" marks a warning
	}{
		{"good", func([]nullableRow) {}, nil},
		{"bad date", func(r []nullableRow) { r[12].Date = ptr("12/31/99") },
			[]string{"row 12: date is no date of the form YYYY-MM-DD, it has 8 bytes"}},
		{"impossible date", func(r []nullableRow) { r[3].Date = ptr("1999-02-30") },
			[]string{"row 3, of the client of row 0: date is no date of the form YYYY-MM-DD, it has 10 bytes"}},
		{"unknown split", func(r []nullableRow) { r[12].Split = ptr("dev") },
			[]string{"row 12: split is none of train, validation and test, it has 3 bytes"}},
		{"null split", func(r []nullableRow) { r[13].Split = nil },
			[]string{"row 13, of the client of row 12: split is null"}},
		{"two splits", func(r []nullableRow) { r[1].Split = ptr("test") },
			[]string{`row 1, of the client of row 0: split is "test", but row 0 puts the client in "train"`}},
		{"null client", func(r []nullableRow) { r[12].Client = nil }, []string{"row 12: client_id is null"}},
		{"blank client", func(r []nullableRow) { r[12].Client = ptr(" ") }, []string{"row 12: client_id is blank"}},
		{"bad bytes in client", func(r []nullableRow) { r[12].Client = ptr("a\xff") },
			[]string{"row 12: client_id is not UTF-8: byte 1 of 2 is ill-formed"}},
		{"null text", func(r []nullableRow) { r[12].Text = nil }, []string{"row 12: text is null"}},
		{"blank text", func(r []nullableRow) { r[12].Text = ptr(" \t\n") },
			[]string{"row 12: text is blank (3 bytes)"}},
		{"bad bytes in text", func(r []nullableRow) { r[12].Text = ptr("it was \xff\xfe\xc3\x28") },
			[]string{"row 12: text is not UTF-8: byte 7 of 11 is ill-formed"}},
		{"bad bytes in label", func(r []nullableRow) { r[12].Label = ptr("\xff") },
			[]string{"row 12: label is not UTF-8: byte 0 of 1 is ill-formed"}},
		{"clients apart", func(r []nullableRow) { r[0], r[12] = r[12], r[0] },
			[]string{"row 12, of the client of row 1: the client's rows are not together: the one before is row 5?",
				"row 13, of the client of row 0: the client's rows are not together: the one before is row 0?"}},
		{"two faults", func(r []nullableRow) { r[2].Text, r[9].Text = nil, nil },
			[]string{"row 2, of the client of row 0: text is null", "row 9, of the client of row 6: text is null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := good()
			c.change(rows)
			path := save(t, rows)
			problems, err := Check(path)
			if err != nil {
				t.Fatal(err)
			}
			fatal := 0
			var got []string
			for _, p := range problems {
				s := p.String()
				if p.Warning {
					s += "?"
				} else {
					fatal++
				}
				got = append(got, s)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("Check gives\n%q, want\n%q", got, c.want)
			}
			_, err = Read(path)
			if fatal == 0 && err != nil {
				t.Errorf("Read refuses it: %v", err)
			}
			if fatal > 0 {
				var invalid *InvalidError
				if !errors.As(err, &invalid) || len(invalid.Problems) != fatal ||
					!errors.Is(err, parquetio.ErrFormat) || !strings.Contains(err.Error(), path) ||
					!strings.Contains(err.Error(), strings.TrimSuffix(c.want[0], "?")) {
					t.Errorf("Read: %v", err)
				}
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	type noClient struct {
		Split string `parquet:"split"`
		Text  string `parquet:"text"`
	}
	type noText struct {
		Client string `parquet:"client_id"`
		Split  string `parquet:"split"`
	}
	type numberClient struct {
		Client int64  `parquet:"client_id"`
		Split  string `parquet:"split"`
		Text   string `parquet:"text"`
	}
	type numberText struct {
		Client string  `parquet:"client_id"`
		Split  string  `parquet:"split"`
		Text   float64 `parquet:"text"`
	}
	type listText struct {
		Client string   `parquet:"client_id"`
		Split  string   `parquet:"split"`
		Text   []string `parquet:"text,list"`
	}
	type both struct {
		Client string   `parquet:"client_id"`
		Split  string   `parquet:"split"`
		Text   string   `parquet:"text"`
		Texts  []string `parquet:"texts,list"`
	}
	type plainTexts struct {
		Client string `parquet:"client_id"`
		Split  string `parquet:"split"`
		Texts  string `parquet:"texts"`
	}
	whole := testfile.Read(t, save(t, good()))
	corrupt := bytes.Clone(whole)
	at := bytes.Index(corrupt, []byte{0x28, 0xb5, 0x2f, 0xfd}) // the first zstd frame
	for i := range 8 {
		corrupt[at+6+i] ^= 0x55
	}
	longFooter := bytes.Clone(whole)
	copy(longFooter[len(longFooter)-8:], []byte{0xff, 0xff, 0xff, 0x7f})
	for _, c := range []struct {
		name, path, want string
	}{
		{"empty", saveBytes(t, nil), "the file is empty"},
		{"only magic", saveBytes(t, []byte("PAR1")), "too few"},
		{"other format", saveBytes(t, []byte("client_id,split,text\na,train,b\n")), "not a Parquet file"},
		{"truncated", saveBytes(t, whole[:len(whole)/2]), "cut off"},
		{"corrupt page", saveBytes(t, corrupt), "column client_id, after 0 values: damaged"},
		{"footer too long", saveBytes(t, longFooter), "footer claims"},
		{"no rows", save(t, []nullableRow{}), "no rows"},
		{"missing client_id", save(t, []noClient{{"train", "a"}}),
			"column client_id is missing; the file has split, text"},
		{"missing text", save(t, []noText{{"a", "train"}}), "column text is missing"},
		{"client_id of numbers", save(t, []numberClient{{1, "train", "a"}}), "column client_id holds INT"},
		{"text of numbers", save(t, []numberText{{"a", "train", 1}}), "column text holds DOUBLE"},
		{"text is a list", save(t, []listText{{"a", "train", nil}}), "column text is a list"},
		{"texts is not a list", save(t, []plainTexts{{"a", "train", "b"}}), "column texts is not a list"},
		{"both layouts", save(t, []both{{"a", "train", "b", nil}}), "both a column text and a column texts"},
		{"a folder", t.TempDir(), "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, checked := Check(c.path)
			for verb, err := range map[string]error{"Check": checked, "Read": second(Read(c.path))} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) ||
					!errors.Is(err, parquetio.ErrFormat) {
					t.Errorf("%s: %v, want %q", verb, err, c.want)
				}
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestReadListLayout(t *testing.T) {
	path := save(t, []listRow{
		{"a", ptr("2001-01-01"), nil, "train", []*string{ptr("one"), ptr("two")}},
		{"b", nil, ptr("x"), "test", []*string{ptr("three")}},
	})
	p, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Client{{ID: "a", Split: Train, Date: "2001-01-01", Texts: []string{"one", "two"}},
		{ID: "b", Split: Test, Label: "x", Texts: []string{"three"}}}
	if !reflect.DeepEqual(p.Clients, want) {
		t.Errorf("got %+v", p.Clients)
	}
	problems, err := Check(save(t, []listRow{{"a", nil, nil, "train", []*string{ptr("one"), nil, ptr("")}},
		{"b", nil, nil, "train", nil}}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	if want := []string{"row 0: texts[1] is null", "row 0: texts[2] is blank (0 bytes)",
		"row 1: texts is empty"}; !reflect.DeepEqual(got, want) {
		t.Errorf("Check gives %q, want %q", got, want)
	}
}

func TestReadGroupsClientsThatAreApart(t *testing.T) {
	p, err := Read(save(t, []nullableRow{
		{Client: ptr("b"), Split: ptr("train"), Text: ptr("1")}, {Client: ptr("a"), Split: ptr("test"), Text: ptr("2")},
		{Client: ptr("b"), Split: ptr("train"), Text: ptr("3"), Label: ptr("x")},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []Client{{ID: "b", Split: Train, Texts: []string{"1", "3"}, Labels: []string{"", "x"}},
		{ID: "a", Split: Test, Texts: []string{"2"}}}
	if !reflect.DeepEqual(p.Clients, want) {
		t.Errorf("got %+v", p.Clients)
	}
}

func TestWriteReadsBack(t *testing.T) {
	p := &Population{Name: "n", Unit: "a client is a test", Clients: []Client{
		{ID: "b", Split: Test, Date: "2020-02-29", Texts: []string{"two\nlines", "ü"}},
		{ID: "a", Split: Train, Label: "l", Texts: []string{"x"}},
		{ID: "c", Split: Validation, Texts: []string{"x", "y"}, Dates: []string{"2020-01-01", ""},
			Labels: []string{"p", "q"}},
	}}
	for i := range 30_000 {
		p.Clients = append(p.Clients, Client{ID: fmt.Sprintf("d%05d", i), Split: Train,
			Texts: []string{fmt.Sprint("text ", i)}})
	}
	path := filepath.Join(t.TempDir(), "out.parquet")
	if err := Write(path, p); err != nil {
		t.Fatal(err)
	}
	q, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	p.Clients[0], p.Clients[1] = p.Clients[1], p.Clients[0]
	if !reflect.DeepEqual(p, q) || p.Tag(nil) != q.Tag(nil) {
		t.Errorf("read back: %+v", q.Clients[:3])
	}
	problems, err := Check(path)
	if err != nil || slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		t.Errorf("Check finds %v, %v", problems[:1], err)
	}
	if info := q.Info(); info.Clients != 30_003 || info.Texts != 30_005 || info.Splits[Test] != (Counts{1, 2, 3}) ||
		len(info.Labels) != 4 {
		t.Errorf("Info: %+v", info)
	}

	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stat, _ := file.Stat()
	opened, err := parquet.OpenFile(file, stat.Size())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(opened.RowGroups()); n != 4 || opened.RowGroups()[0].NumRows() != 10_000 {
		t.Errorf("%d row groups, the first of %d rows", n, opened.RowGroups()[0].NumRows())
	}
}

func TestWriteRefusesWhatReadWouldRefuse(t *testing.T) {
	for want, clients := range map[string][]Client{
		"no clients":        nil,
		"there twice":       {{ID: "a", Split: Train, Texts: []string{"x"}}, {ID: "a", Split: Train, Texts: []string{"y"}}},
		"no texts":          {{ID: "a", Split: Train}},
		"split is none of":  {{ID: "a", Split: "dev", Texts: []string{"x"}}},
		"date is no date":   {{ID: "a", Split: Train, Date: "today", Texts: []string{"x"}}},
		"text is blank":     {{ID: "a", Split: Train, Texts: []string{" "}}},
		"not UTF-8":         {{ID: "a", Split: Train, Texts: []string{"\xff"}}},
		"client_id is":      {{ID: "", Split: Train, Texts: []string{"x"}}},
		"1 texts with 2 da": {{ID: "a", Split: Train, Texts: []string{"x"}, Dates: []string{"", ""}}},
	} {
		path := filepath.Join(t.TempDir(), "out.parquet")
		err := Write(path, &Population{Clients: clients})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%q: a file was written", want)
		}
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := parquetio.Write(&b, good()[:3], nil); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	if err := parquetio.Write(&b, []listRow{{"a", nil, nil, "train", []*string{ptr("one"), nil}}}, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	f.Add([]byte("PAR1PAR1PAR1"))
	path := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, content []byte) {
		testfile.Write(t, path, content)
		p, err := Read(path)
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		if err := Write(path, p); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
