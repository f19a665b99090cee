package clients

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	p := &Population{Clients: []Client{
		{ID: "a", Split: Train, Label: "pos", Texts: []string{"one", "two"}},
		{ID: "b", Split: Test, Texts: []string{"three", "four"}, Labels: []string{"neg", ""}},
		{ID: "c", Split: Validation, Texts: []string{"five"}},
	}}
	path := filepath.Join(t.TempDir(), "c.parquet")
	if err := Write(path, p); err != nil {
		t.Fatal(err)
	}
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := Labels(again.Clients); !slices.Equal(got, []string{"pos", "pos", "neg", "", ""}) {
		t.Errorf("labels %q", got)
	}
	for _, k := range []struct {
		splits []Split
		first  int64
		n      int
	}{{[]Split{Train}, -1, 0}, {[]Split{Test}, 3, 1}, {Splits, 3, 2}, {[]Split{Validation}, 4, 1}} {
		if first, n, err := Unlabelled(path, k.splits...); err != nil || first != k.first || n != k.n {
			t.Errorf("%s: row %d of %d (%v)", k.splits, first, n, err)
		}
	}
}

// labelRows are rows "client split label", in the order of a file.
func labelRows(rows ...[3]string) (out []nullableRow) {
	for i, r := range rows {
		row := nullableRow{Client: ptr(r[0]), Split: ptr(r[1]), Text: ptr(fmt.Sprint("text ", i))}
		if r[2] != "" {
			row.Label = ptr(r[2])
		}
		out = append(out, row)
	}
	return out
}

func TestCountLabels(t *testing.T) {
	p, err := Read(save(t, labelRows([3]string{"a", "train", "x"}, [3]string{"a", "train", "x"},
		[3]string{"a", "train", "y"}, [3]string{"b", "train", ""}, [3]string{"c", "test", "y"}, [3]string{"d", "test",
			"x"})))
	if err != nil {
		t.Fatal(err)
	}
	want := []LabelCounts{{"x", Labelled{2, 3}, map[Split]Labelled{Train: {1, 2}, Test: {1, 1}}},
		{"y", Labelled{2, 2}, map[Split]Labelled{Train: {1, 1}, Test: {1, 1}}},
		{"", Labelled{1, 1}, map[Split]Labelled{Train: {1, 1}}}}
	if got := p.Info().Labels; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := countLabels([]Client{{ID: "a", Split: Train, Texts: []string{"one"}}}); got != nil {
		t.Errorf("texts without labels have %+v", got)
	}
}

// Warnings of labels name rows and quote no label.
func TestCheckLabels(t *testing.T) {
	type rows = [][3]string
	for name, k := range map[string]struct {
		rows rows
		want []string
	}{
		"all":  {rows{{"a", "train", "x"}, {"b", "test", "x"}}, nil},
		"none": {rows{{"a", "train", ""}, {"b", "test", ""}}, nil},
		"a missing one": {rows{{"a", "train", "x"}, {"a", "train", ""}, {"b", "test", ""}},
			[]string{"row 1, of the client of row 0: label is missing, and other rows have one",
				"row 2: label is missing, and other rows have one"}},
		"train has none": {rows{{"a", "train", ""}, {"b", "test", "x"}, {"c", "validation", "y"}}, nil},
		"one of test is missing": {rows{{"a", "train", ""}, {"b", "test", "x"}, {"c", "validation", ""}},
			[]string{"row 2: label is missing, and other rows have one"}},
		"new in test": {rows{{"b", "test", "y"}, {"b", "test", "y"}, {"c", "validation", "y"}, {"a", "train", "x"}},
			[]string{"row 0: label is in test and in no train row (rows of test that have it: 2)",
				"row 2: label is in validation and in no train row (rows of validation that have it: 1)"}},
	} {
		path := save(t, labelRows(k.rows...))
		problems, err := Check(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range problems {
			if got = append(got, p.String()); !p.Warning {
				t.Errorf("%s: %s is no warning", name, p)
			}
		}
		if !slices.Equal(got, k.want) {
			t.Errorf("%s: %q, want %q", name, got, k.want)
		}
		if _, err := Read(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Labels that other programs wrote as numbers are read as an import reads them.
func TestLabelsOfNumbers(t *testing.T) {
	type whole struct {
		Client string `parquet:"client_id"`
		Split  string `parquet:"split"`
		Label  *int32 `parquet:"label,optional,dict"`
		Text   string `parquet:"text"`
	}
	type fraction struct {
		Client string  `parquet:"client_id"`
		Split  string  `parquet:"split"`
		Label  float64 `parquet:"label"`
		Text   string  `parquet:"text"`
	}
	type truth struct {
		Client string `parquet:"client_id"`
		Split  string `parquet:"split"`
		Label  bool   `parquet:"label"`
		Text   string `parquet:"text"`
	}
	one := int32(1)
	for want, path := range map[string]string{
		"1,,1":       save(t, []whole{{"a", "train", &one, "x"}, {"a", "train", nil, "y"}, {"b", "test", &one, "z"}}),
		"0,0.5,3":    save(t, []fraction{{"a", "train", 0, "x"}, {"a", "train", 0.5, "y"}, {"b", "test", 3, "z"}}),
		"true,false": save(t, []truth{{"a", "train", true, "x"}, {"b", "test", false, "z"}}),
	} {
		p, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Labels(p.Clients), ","); got != want {
			t.Errorf("labels %s, want %s", got, want)
		}
		streamed := ""
		err = Stream(path, func(batch []Client) error {
			streamed += strings.Join(Labels(batch), ",")
			return nil
		})
		if err != nil || strings.ReplaceAll(streamed, ",", "") != strings.ReplaceAll(want, ",", "") {
			t.Errorf("streamed labels %s, want %s; %v", streamed, want, err)
		}
		out := filepath.Join(t.TempDir(), "again.parquet")
		if _, err := Import(t.Context(), out, []ImportFile{{Path: path}},
			ImportOptions{Deduplicate: NoDeduplication}); err != nil {
			t.Fatal(err)
		}
		again, err := Read(out)
		if err != nil || !slices.Equal(Labels(again.Clients), Labels(p.Clients)) {
			t.Errorf("imported labels %q, want %q; %v", Labels(again.Clients), Labels(p.Clients), err)
		}
		if _, _, err := Unlabelled(path, Splits...); err != nil {
			t.Error(err)
		}
	}
}
