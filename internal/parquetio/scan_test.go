package parquetio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type foreignRow struct {
	Author int64     `parquet:"author"`
	Day    int32     `parquet:"day,date"`
	At     time.Time `parquet:"at,timestamp(millisecond)"`
	Public bool      `parquet:"public"`
	Score  float64   `parquet:"score"`
	Text   *string   `parquet:"text,optional"`
	Parts  []string  `parquet:"parts,list"`
}

func foreign(t *testing.T, n int) *File {
	t.Helper()
	rows := make([]foreignRow, n)
	for i := range rows {
		text := fmt.Sprint("text ", i)
		rows[i] = foreignRow{Author: int64(-i), Day: int32(i), At: time.Date(2001, 2, 3, 23, 59, 0, 0, time.UTC),
			Public: i%2 == 1, Text: &text, Parts: strings.Fields(strings.Repeat("a ", i%4))}
		if i == 2 {
			rows[i].Text = nil
		}
	}
	var b bytes.Buffer
	if err := Write(&b, rows, nil); err != nil {
		t.Fatal(err)
	}
	f := opened(t, file(t, b.Bytes()))
	t.Cleanup(func() { f.Close() })
	return f
}

// Rows of several columns stay side by side over pages and row groups, whatever the columns hold.
func TestScan(t *testing.T) {
	const n = 25_001
	f := foreign(t, n)
	columns := []Column{{Name: "parts"}, {Name: "author", Convert: true}, {Name: "day", Convert: true},
		{Name: "at", Convert: true}, {Name: "public", Convert: true}, {Name: "text"}}
	rows := 0
	err := f.Scan(columns, func(row int64, cells [][]Cell) error {
		i := int(row)
		var parts []Cell
		for range i % 4 {
			parts = append(parts, Cell{Value: "a"})
		}
		day := time.Date(1970, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		want := [][]Cell{parts, {{Value: fmt.Sprint(-i)}}, {{Value: day}}, {{Value: "2001-02-03"}},
			{{Value: fmt.Sprint(i%2 == 1)}}, {{Value: fmt.Sprint("text ", i)}}}
		if i == 2 {
			want[5][0] = Cell{Null: true}
		}
		for k := range want {
			if len(cells[k]) != len(want[k]) || len(want[k]) > 0 && !reflect.DeepEqual(cells[k], want[k]) {
				return fmt.Errorf("row %d: column %s is %v, want %v", i, columns[k].Name, cells[k], want[k])
			}
		}
		rows++
		return nil
	})
	if err != nil || rows != n {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func TestScanRefuses(t *testing.T) {
	f := foreign(t, 10)
	none := func(int64, [][]Cell) error { return nil }
	for want, c := range map[string]Column{"holds INT": {Name: "author"},
		"holds DOUBLE": {Name: "score", Convert: true}, "is missing": {Name: "nobody", Convert: true, Floats: true},
		"holds BOOL": {Name: "public"}} {
		if err := f.Scan([]Column{c}, none); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	stop := errors.New("stop")
	if err := f.Scan([]Column{{Name: "text"}}, func(row int64, _ [][]Cell) error {
		if row == 3 {
			return stop
		}
		return nil
	}); err != stop {
		t.Errorf("an error of the caller became %v", err)
	}
	f.limit = 4 * valueBytes
	if err := f.Scan([]Column{{Name: "text"}}, none); !errors.Is(err, errTooMuch) {
		t.Errorf("more than the limit: %v", err)
	}
}

// Numbers of all types become the digits that a person would write.
func TestValuesOfNumbers(t *testing.T) {
	type row struct {
		Byte   int8     `parquet:"byte"`
		Large  uint64   `parquet:"large"`
		Yes    *bool    `parquet:"yes,optional,dict"`
		Half   float32  `parquet:"half"`
		Number *float64 `parquet:"number,optional,dict"`
		Word   string   `parquet:"word,dict"`
	}
	yes, one, nan, huge := true, -1.0, math.NaN(), 1e300
	var b bytes.Buffer
	if err := Write(&b, []row{{-3, 1 << 63, &yes, 0.1, &one, "a"}, {4, 2, nil, 2, &nan, "b"},
		{5, 3, &yes, -0.5, nil, "b"}, {6, 4, nil, 3, &huge, "a"}}, nil); err != nil {
		t.Fatal(err)
	}
	f := opened(t, file(t, b.Bytes()))
	defer f.Close()
	null := Cell{Null: true}
	for name, want := range map[string][]Cell{
		"byte":   {{Value: "-3"}, {Value: "4"}, {Value: "5"}, {Value: "6"}},
		"large":  {{Value: "9223372036854775808"}, {Value: "2"}, {Value: "3"}, {Value: "4"}},
		"yes":    {{Value: "true"}, null, {Value: "true"}, null},
		"half":   {{Value: "0.1"}, {Value: "2"}, {Value: "-0.5"}, {Value: "3"}},
		"number": {{Value: "-1"}, {}, null, {Value: "1e+300"}},
		"word":   {{Value: "a"}, {Value: "b"}, {Value: "b"}, {Value: "a"}},
	} {
		if got, err := f.Values(Column{Name: name, Convert: true, Floats: true}); err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}

type nestedRow struct {
	User *struct {
		Name *string  `parquet:"name,optional"`
		ID   [16]byte `parquet:"id,uuid"`
	} `parquet:"user,optional"`
	Body struct {
		Text string `parquet:"text"`
	} `parquet:"body"`
	Posts []struct {
		Text string `parquet:"text"`
	} `parquet:"posts,list"`
}

// Fields of structs are named by their path. A struct of one field is no string, and neither is one in a list.
func TestFieldsOfStructs(t *testing.T) {
	var rows [3]nestedRow
	if err := json.Unmarshal([]byte(`[{"User": {"Name": "ann", "ID": [1, 35, 69]}, "Body": {"Text": "x"}},
		{"User": {}, "Body": {"Text": "y"}}, {"Body": {"Text": "z"}}]`), &rows); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, rows[:], nil); err != nil {
		t.Fatal(err)
	}
	f := opened(t, file(t, b.Bytes()))
	defer f.Close()
	got := ""
	err := f.Scan([]Column{{Name: "user.name"}, {Name: "user.id", Convert: true}, {Name: "body.text"}},
		func(_ int64, cells [][]Cell) error {
			for _, c := range cells {
				got += fmt.Sprint(c[0].Value, c[0].Null, " ")
			}
			return nil
		})
	want := "annfalse 01234500-0000-0000-0000-000000000000false xfalse true " +
		"00000000-0000-0000-0000-000000000000false yfalse true true zfalse "
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, name := range []string{"body", "posts", "user"} {
		err := f.Scan([]Column{{Name: name}}, func(int64, [][]Cell) error { return nil })
		if !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), "the file has user.name, user.id, body.text, posts") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"posts.text", "posts.list", "body.", "body.text.x", ".", "user.age"} {
		if f.Has(name) {
			t.Errorf("it has %s", name)
		}
	}
}
