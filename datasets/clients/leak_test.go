package clients

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"popri/datasets/records"
	"popri/testkit/testfile"
)

// columns of a sound client file, each with cells that a swapped column would show.
var columns = map[string][]string{
	"client_id": {"ann of the hill", "ann of the hill", "bob by the sea"},
	"split":     {"train", "train", "test"},
	"date":      {"1999-12-31", "2000-01-01", "2001-02-03"},
	"label":     {"diary", "letter to a friend", "sermon"},
	"text":      {"She never told him why.", "The doctor said it twice.", "My password is swordfish."},
}

// permutations calls visit with every order of names.
func permutations(names []string, visit func([]string)) {
	var position func(k int)
	position = func(k int) {
		if k == len(names) {
			visit(names)
			return
		}
		for i := k; i < len(names); i++ {
			names[k], names[i] = names[i], names[k]
			position(k + 1)
			names[k], names[i] = names[i], names[k]
		}
	}
	position(0)
}

// quotes returns the first cell that an output quotes, or a long part of.
func quotes(output string, cells map[string][]string) string {
	for _, list := range cells {
		for _, cell := range list {
			if len(cell) > 3 && !Split(cell).Valid() && strings.Contains(output, cell) {
				return cell
			}
			for word := range strings.FieldsSeq(cell) { // a part of a text is private too
				if !utf8.ValidString(word) || len(word) > 4 && !Split(word).Valid() && strings.Contains(output, word) {
					return word
				}
			}
		}
	}
	return ""
}

// Errors never quote a cell, whatever columns somebody swaps.
func TestSwappedColumnsAreNotQuoted(t *testing.T) {
	names := []string{"client_id", "split", "date", "label", "text"}
	sources := []string{"client_id", "split", "date", "label", "text"}
	refused := 0
	permutations(sources, func(from []string) {
		rows := make([]nullableRow, 3)
		for i := range rows {
			cells := map[string]*string{}
			for k, name := range names {
				cells[name] = &columns[from[k]][i]
			}
			rows[i] = nullableRow{cells["client_id"], cells["split"], cells["date"], cells["label"], cells["text"]}
		}
		path := save(t, rows)
		problems, err := Check(path)
		if err != nil {
			t.Fatal(err)
		}
		said := []string{fmt.Sprint(second(Read(path)))}
		for _, p := range problems {
			said = append(said, p.String(), p.Kind, p.Message)
		}
		if len(problems) > 0 {
			refused++
		}
		if cell := quotes(strings.Join(said, "\n"), columns); cell != "" {
			t.Errorf("columns in the order %v: %q is quoted:\n%s", from, cell, strings.Join(said, "\n"))
		}
	})
	if refused < 90 { // all but those that leave split and date where they are
		t.Errorf("only %d orders of the columns are refused", refused)
	}
}

func TestDamagedCellsAreNotQuoted(t *testing.T) {
	for name, change := range map[string]func(r *nullableRow){
		"client_id": func(r *nullableRow) { r.Client = ptr("a secret name\xff") },
		"split":     func(r *nullableRow) { r.Split = ptr("a secret text") },
		"date":      func(r *nullableRow) { r.Date = ptr("a secret date") },
		"label":     func(r *nullableRow) { r.Label = ptr("a secret label\xff") },
		"text":      func(r *nullableRow) { r.Text = ptr("a secret text\xff") },
	} {
		rows := good()
		change(&rows[11])
		problems, err := Check(save(t, rows))
		if err != nil || len(problems) != 1 || problems[0].Row != 11 ||
			strings.Contains(problems[0].String(), "secret") {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}

// The other readers of private text quote nothing either.
func TestPublishedJSONIsNotQuoted(t *testing.T) {
	for _, content := range []string{
		`{"a secret name": "a secret text"}`,
		`{"a secret name": [["a secret text"]]}`,
		`{"a secret name": [424242424242]}`,
		`{"a secret name": ["x"], "a secret name": ["y"]}`,
		`{"a secret name": []}`,
		`{"a secret name": [null]}`,
		`{"a secret name": ["a secret text"`,
		`{"a secret name": ["a secret text"]} "a secret text"`,
		`{"a secret name" "a secret text"}`,
		`"a secret text"`,
		`a secret text`,
		`424242424242`,
		"{\"a secret name\": [\"a secret text\xff\"]}",
		`{"known secret": ["x"]}`,
	} {
		dir := t.TempDir()
		first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
		for path, content := range map[string]string{first: `{"known secret": ["x"]}`, second: content} {
			testfile.Write(t, path, content)
		}
		_, err := Import(t.Context(), filepath.Join(dir, "out"), []ImportFile{{first, Train}, {second, Validation}},
			ImportOptions{Dialect: records.Dialect{Format: records.JSON}, Deduplicate: NoDeduplication})
		if err == nil {
			t.Fatalf("%s: no error", content)
		}
		said := strings.ReplaceAll(err.Error(), dir, "") // its name is a random number
		if strings.Contains(said, "secret") || strings.Contains(said, "4242") {
			t.Errorf("%s: %v", content, err)
		}
	}
	path := saveBytes(t, []byte("secret, one line of it\n"))
	if _, err := Read(path); err == nil || strings.Contains(err.Error(), "secr") {
		t.Errorf("a text file for a table: %v", err)
	}
	type headless struct {
		A string `parquet:"She never told him why."`
		B string `parquet:"train"`
	}
	if _, err := Read(save(t, []headless{{"x", "y"}})); err == nil || strings.Contains(err.Error(), "never") {
		t.Errorf("a table whose column names are a row: %v", err)
	}
}
