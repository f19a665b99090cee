package evolution

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func storedRows() []Row {
	return []Row{
		{Round: 2, Sample: 0, Text: "a", Parent: 3, Kind: "fill", Generation: 1, Copies: 2},
		{Round: 2, Sample: 1, Text: "b", Parent: 0, Kind: "kept", Generation: 0},
	}
}

func TestFromRows(t *testing.T) {
	if p, s, err := fromRows(storedRows()); err != nil || p.Round != 2 || len(p.Samples) != 2 || s.Len() != 2 {
		t.Fatalf("%+v %+v %v", p, s, err)
	}
	for name, change := range map[string]func(r []Row){
		"sample_index":            func(r []Row) { r[1].Sample = 0 },
		"round is 3":              func(r []Row) { r[1].Round = 3 },
		"round is 0":              func(r []Row) { r[0].Round, r[1].Round = 0, 0 },
		"kept is true":            func(r []Row) { r[1].Kept = true },
		"samples are kept":        func(r []Row) { r[0].Kept, r[1].Kept, r[0].Copies = true, true, 0 },
		"copies is -1":            func(r []Row) { r[1].Copies = -1 },
		"copies is 9":             func(r []Row) { r[1].Copies = math.MaxInt64 },
		"generation is -1":        func(r []Row) { r[1].Generation = -1 },
		"text is empty":           func(r []Row) { r[1].Text = " " },
		"or not UTF-8":            func(r []Row) { r[1].Text = "\xff" },
		`kind is "expand"`:        func(r []Row) { r[1].Kind = "expand" },
		"parent_index is -2":      func(r []Row) { r[1].Parent = -2 },
		"a kept text is -1":       func(r []Row) { r[1].Parent = -1 },
		"a public text is 0":      func(r []Row) { r[1].Kind = "public" },
		"of a public text is 1":   func(r []Row) { r[0].Kind, r[0].Parent = "public", -1 },
		"parent_index is 9223372": func(r []Row) { r[1].Parent = math.MaxInt64 },
	} {
		r := storedRows()
		change(r)
		if _, _, err := fromRows(r); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := fromRows(nil); !errors.Is(err, ErrRows) {
		t.Errorf("no rows: %v", err)
	}
	if _, err := rowsOf(Population{Samples: make([]Sample, 2)}, Selection{Copies: []int{1}}); err == nil {
		t.Error("a selection of another population was written")
	}
}

// Rows that are accepted are written again as they were.
func FuzzFromRows(f *testing.F) {
	for _, r := range storedRows() {
		f.Add(r.Round, r.Sample, r.Text, r.Parent, r.Kind, r.Generation, r.Copies, r.Kept)
	}
	f.Fuzz(func(t *testing.T, round, sample int64, text string, parent int64, kind string, generation, copies int64,
		kept bool) {
		r := []Row{{Round: round, Sample: sample, Text: text, Parent: parent, Kind: kind, Generation: generation,
			Copies: copies, Kept: kept}}
		p, s, err := fromRows(r)
		if err != nil {
			if !errors.Is(err, ErrRows) {
				t.Fatal(err)
			}
			return
		}
		again, err := rowsOf(p, s)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v became %+v %v", r, again, err)
		}
	})
}
