package rows

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestForeignLists: a file of ours that went through pandas has its lists within a group "list" and optional columns, and
// reads as before; empty lists and missing columns too.
func TestForeignLists(t *testing.T) {
	type ours struct {
		Text  string  `parquet:"text"`
		IDs   []int32 `parquet:"ids"`
		Score float64 `parquet:"score"`
		Label string  `parquet:"label,optional"`
		More  []int32 `parquet:"more"`
	}
	type theirs struct {
		Score float64  `parquet:"score,optional"`
		IDs   []*int32 `parquet:"ids,list,optional"`
		Other []string `parquet:"other,list"`
		Text  string   `parquet:"text,optional"`
	}
	one, two := int32(1), int32(2)
	path := filepath.Join(t.TempDir(), "rows.parquet")
	if err := parquet.WriteFile(path, []theirs{
		{1.5, []*int32{&one, &two, &one}, []string{"x", "y"}, "a"}, {-2, nil, nil, "b"}, {3, []*int32{&two}, nil, "c"},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := Read[ours](path)
	want := []ours{{Text: "a", IDs: []int32{1, 2, 1}, Score: 1.5}, {Text: "b", Score: -2},
		{Text: "c", IDs: []int32{2}, Score: 3}}
	for i := range got {
		if len(got[i].IDs) == 0 {
			got[i].IDs = nil
		}
		if len(got[i].More) == 0 {
			got[i].More = nil
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if err := parquet.WriteFile(path, []theirs{{1, []*int32{&one, nil}, nil, "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[ours](path); err == nil || !strings.Contains(err.Error(), "row 0: column ids: a null") {
		t.Errorf("a null in a list: %v", err)
	}
}
