package datasets

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/internal/parquetio"
	"popri/internal/rows"
	"popri/testkit/testfile"
)

// Every format gives the texts of ReadPublic with their labels; numbers become text.
func TestReadLabelled(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		return testfile.Write(t, filepath.Join(dir, name), content)
	}
	type named struct {
		Text  string  `parquet:"text"`
		Label *string `parquet:"label,optional"`
	}
	type numbered struct {
		Label  int64  `parquet:"label"`
		Text   string `parquet:"text"`
		Source string `parquet:"source"`
	}
	table := filepath.Join(dir, "numbers.parquet")
	if err := rows.Write(table, []numbered{{1, "good  one", "a"}, {0, "bad", "b"}}); err != nil {
		t.Fatal(err)
	}
	holed := filepath.Join(dir, "holed.parquet")
	if err := rows.Write(holed, []named{{"good", new("pos")}, {"bad", nil}}); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(dir, "bare.parquet")
	if err := rows.Write(bare, []struct {
		Text string `parquet:"text"`
	}{{"good"}}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]Text{
		table: {{"good one", "a", "1", ""}, {"bad", "b", "0", ""}},
		file("l.jsonl",
			"{\"text\": \"good\", \"label\": \"pos\", \"source\": \"s\"}\n\n{\"label\": 3, \"text\": \"bad\"}\n"): {
			{"good", "s", "pos", ""}, {"bad", "", "3", ""}},
		file("l.json", `[{"text": "good", "label": "pos"}, {"text": "bad", "label": "neg"}]`): {
			{"good", "", "pos", ""}, {"bad", "", "neg", ""}},
	} {
		got, err := ReadLabelled(path)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q (%v)", path, got, err)
		}
		plain, err := ReadPublic(path)
		if err != nil || Labels(plain) != nil || !slices.Equal(Strings(plain), Strings(want)) {
			t.Errorf("%s without labels: %q (%v)", path, plain, err)
		}
		if p, q := (&Public{Prompts: got}), (&Public{Prompts: plain}); p.Hash() == q.Hash() {
			t.Errorf("%s: labels do not change the hash", path)
		}
	}
	for path, fault := range map[string]string{
		holed: "row 1 has no label",
		bare:  "row 0 has no label",
		file("m.jsonl", "{\"text\": \"good\", \"label\": \"pos\"}\n{\"text\": \"bad\"}\n"): "line 2 has no label",
		file("n.jsonl", "{\"text\": \"good\", \"label\": \" \"}\n"):                        "blank",
		file("o.json", `["good", "bad"]`):                                                  "entry 0 has no label",
		file("p.txt", "good\nbad\n"):                                                       "lines of text have no labels",
	} {
		if _, err := ReadLabelled(path); err == nil || !strings.Contains(err.Error(), fault) ||
			!errors.Is(err, parquetio.ErrFormat) {
			t.Errorf("%s: %v, want %q", path, err, fault)
		}
	}
	if got := Classes("b", "a", "", "b"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("classes %q", got)
	}
}
