package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/internal/parquetio"
	"popri/testkit/testfile"
)

// clientRow is a row of a client file as somebody may write it, sound or not.
type clientRow struct {
	Client string `parquet:"client_id"`
	Split  string `parquet:"split"`
	Date   string `parquet:"date"`
	Text   string `parquet:"text"`
}

func clientFile[T any](t *testing.T, rows []T) string {
	t.Helper()
	var b bytes.Buffer
	if err := parquetio.Write(&b, rows, nil); err != nil {
		t.Fatal(err)
	}
	return write(t, t.TempDir(), "clients.parquet", b.String())
}

// What the verbs say of a file whose columns are swapped, in any order, quotes none of its cells.
func TestDataVerbsQuoteNoCell(t *testing.T) {
	cells := [4][]string{{"ann of the hill", "bob by the sea"}, {"train", "test"}, {"1999-12-31", "2001-02-03"},
		{"She never told him why.", "The doctor said it twice."}}
	refused := 0
	for code := range 256 { // every choice of a source for each column, permutations among them
		from := []int{code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3}
		if sorted := slices.Sorted(slices.Values(from)); !slices.Equal(sorted, []int{0, 1, 2, 3}) {
			continue
		}
		var rows []clientRow
		for i := range 2 {
			rows = append(rows, clientRow{cells[from[0]][i], cells[from[1]][i], cells[from[2]][i], cells[from[3]][i]})
		}
		file := clientFile(t, rows)
		for _, args := range [][]string{{"data", "check", file}, {"data", "check", file, "--json", "--all"},
			{"data", "info", file}} {
			code, out, errs := popri(t, args...)
			if code != 0 {
				refused++
			}
			for _, list := range cells {
				for _, cell := range list {
					if cell != "train" && cell != "test" && strings.Contains(out+errs, cell) {
						t.Errorf("%v with the columns %v quotes %q:\n%s%s", args[:2], from, cell, out, errs)
					}
				}
			}
		}
	}
	if refused < 60 { // 22 of 24 orders, three verbs each
		t.Errorf("only %d command lines are refused", refused)
	}
}

func TestDataCheckBoundsItsList(t *testing.T) {
	var rows []clientRow
	for i := range 100 {
		rows = append(rows, clientRow{fmt.Sprint("client ", i), "dev", "", "a text"})
	}
	rows[3].Text, rows[99].Text = " ", " "
	file := clientFile(t, rows)
	code, out, errs := popri(t, "data", "check", file)
	if lines := strings.Count(out, file+": "); code != exitUsage || lines != shownRows+2+1 ||
		!strings.Contains(out, "80 more of 100: split is none of") ||
		!strings.Contains(out, "row 99: text is blank") ||
		!strings.Contains(errs, "data check: "+file+": 102 problems") {
		t.Errorf("exit code %d, %d lines:\n%s%s", code, lines, out, errs)
	}
	if _, out, _ := popri(t, "data", "check", file, "--all"); strings.Count(out, file+": ") != 102 {
		t.Errorf("--all names %d rows", strings.Count(out, file+": "))
	}
	_, out, _ = popri(t, "data", "check", file, "--json")
	v := decode(t, out)
	if n := len(v["problems"].([]any)); n != shownRows+2 || v["counts"].(map[string]any)["text is blank"] != 2.0 {
		t.Errorf("%d problems in JSON, counts %v", n, v["counts"])
	}
}

// Errors say which verb they are of.
func TestVerbsNameThemselves(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	testfile.Write(t, none+".parquet", "no table")
	for prefix, args := range map[string][]string{
		"popri: data check: ":        {"data", "check", none},
		"popri: data check: clients": {"data", "check", none + ".parquet"},
		"popri: data info: ":         {"data", "info", none},
		"popri: data import: ":       {"data", "import", "train=" + none, "--out", none},
		"popri: data build: ":        {"data", "build", none, "--out", none},
		"popri: eval: ":              {"eval", "--run", none},
	} {
		if code, _, errs := popri(t, args...); code != exitUsage || !strings.HasPrefix(errs, prefix) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

type labelledRow struct {
	Client string `parquet:"client_id"`
	Split  string `parquet:"split"`
	Label  string `parquet:"label"`
	Text   string `parquet:"text"`
}

func TestDataInfoListsLabels(t *testing.T) {
	var rows []labelledRow
	for i := range 60 {
		split := "train"
		if i >= 40 {
			split = "test"
		}
		rows = append(rows, labelledRow{fmt.Sprint("client ", i/2), split, fmt.Sprint("topic ", i%3), "a text"})
	}
	file := clientFile(t, append(rows, labelledRow{"client 90", "validation", "", "a text"}))
	code, out, errs := popri(t, "data", "info", file, "--labels")
	for _, want := range []string{"label    texts of clients  train     validation  test",
		"topic 0  20 of 20          14 of 14  0 of 0      6 of 6",
		"(none)   1 of 1            0 of 0    1 of 1      0 of 0"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no line %q:\n%s%s", code, want, out, errs)
		}
	}
	_, out, _ = popri(t, "data", "info", file, "--labels", "--json")
	labels := decode(t, out)["labels"].([]any)
	if first := labels[0].(map[string]any); len(labels) != 4 || first["label"] != "topic 0" || first["rows"] != 20.0 ||
		first["splits"].(map[string]any)["test"].(map[string]any)["clients"] != 6.0 {
		t.Errorf("%s", out)
	}

	// Without being asked to, it quotes none.
	for _, args := range [][]string{{"data", "info", file}, {"data", "info", file, "--json"}} {
		if code, out, _ := popri(t, args...); code != 0 || strings.Contains(out, "topic") ||
			!strings.Contains(out, "label 3") {
			t.Errorf("%v: exit code %d:\n%s", args, code, out)
		}
	}

	for i := range rows { // 30 labels
		rows[i].Label = fmt.Sprintf("topic %02d", i/2)
	}
	rows[1].Label = ""
	if _, out, _ = popri(t, "data", "info", clientFile(t, rows), "--labels"); strings.Count(out,
		"\ntopic ") != shownLabels-1 || !strings.Contains(out, "(none)") || !strings.Contains(out, "… 11 more") {
		t.Errorf("30 labels:\n%s", out)
	}
}

// Where the column label holds texts, they are not quoted.
func TestDataVerbsQuoteNoLongLabel(t *testing.T) {
	var many []labelledRow
	for i := range 300 {
		many = append(many, labelledRow{fmt.Sprint("client ", i), "train", fmt.Sprintf("secret %d", i), "x"})
	}
	for name, rows := range map[string][]labelledRow{
		"words": {{"a", "train", "my secret is that I", "x"}, {"b", "test", "x secret y z w", "y"}},
		"bytes": {{"a", "train", "secret/" + strings.Repeat("x", 40), "x"}},
		"lines": {{"a", "train", "secret\nline", "x"}}, "many": many,
	} {
		file := clientFile(t, rows)
		for _, args := range [][]string{{"data", "info", file, "--labels"}, {"data", "info", file, "--json"},
			{"data", "check", file, "--all"}} {
			if code, out, errs := popri(t, args...); code == exitFailed || strings.Contains(out+errs, "secret") {
				t.Errorf("%s: %v: exit code %d:\n%.400s%s", name, args[:2], code, out, errs)
			}
		}
		if _, out, _ := popri(t, "data", "info", file, "--labels"); !strings.Contains(out, "(a label of ") {
			t.Errorf("%s:\n%.400s", name, out)
		}
	}
}

func TestDataCheckWarnsOfLabels(t *testing.T) {
	file := clientFile(t, []labelledRow{{"a", "train", "x", "one"}, {"a", "train", "", "two"},
		{"b", "test", "hidden", "three"}})
	code, out, _ := popri(t, "data", "check", file)
	for _, want := range []string{"warning: row 1, of the client of row 0: label is missing",
		"warning: row 2: label is in test and in no train row"} {
		if code != exitUsage || !strings.Contains(out, want) || strings.Contains(out, "hidden") {
			t.Errorf("exit code %d, want %q:\n%s", code, want, out)
		}
	}
}
