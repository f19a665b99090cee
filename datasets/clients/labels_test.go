package clients

import (
	"path/filepath"
	"slices"
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
