package clients

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"popri/datasets/records"
	"popri/testkit/testfile"
)

func write(t *testing.T, name, content string) string {
	return testfile.Write(t, filepath.Join(t.TempDir(), name), content)
}

func TestGuess(t *testing.T) {
	var csv, jsonl strings.Builder
	csv.WriteString("id;user_name;Category;posted_at;title;message\n")
	for i := range 400 {
		fmt.Fprintf(&csv, "%d;u%d;c%d;2024-01-%02d;two words;a message of some more words\n", i, i/4, i%3, 1+i%28)
		fmt.Fprintf(&jsonl, `{"author": {"name": "a%d"}, "body": {"text": "some words that were written"}, "when": "soon"}`+"\n", i/4)
	}
	for name, c := range map[string]struct {
		content     string
		given, want records.Columns
	}{
		"a.csv":   {csv.String(), records.Columns{}, records.Columns{Client: "user_name", Text: "message", Date: "posted_at", Label: "Category"}},
		"b.csv":   {csv.String(), records.Columns{Client: "id", Text: "title"}, records.Columns{Client: "id", Text: "title", Date: "posted_at", Label: "Category"}},
		"c.jsonl": {jsonl.String(), records.Columns{}, records.Columns{Client: "author.name", Text: "body.text"}}, // "soon" is no date
		"d.json":  {`{"u1": ["one text", "two texts"]}`, records.Columns{}, records.Columns{}},
	} {
		got, err := Guess(write(t, name, c.content), ImportOptions{Columns: c.given})
		if err != nil || got.Client != c.want.Client || got.Text != c.want.Text || got.Date != c.want.Date || got.Label != c.want.Label {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// What cannot be guessed, or is not there, is an error with the file, the column and what there is.
func TestGuessFails(t *testing.T) {
	plain := "number,remark\n1,some words of a text\n2,some more words of it\n"
	for name, c := range map[string]struct {
		content string
		given   records.Columns
		want    []string
	}{
		"noclient.csv": {plain, records.Columns{}, []string{"noclient.csv", "--client", "number, remark"}},
		"wrong.csv":    {plain, records.Columns{Client: "usr"}, []string{"wrong.csv", `"usr" for the client`, "number", "remark"}},
		"notext.csv":   {"user,n\na,1\nb,2\n", records.Columns{}, []string{"notext.csv", "--text", "user, n"}},
		"broken.jsonl": {"{\n", records.Columns{}, []string{"broken.jsonl", "line 1"}},
	} {
		_, err := Guess(write(t, name, c.content), ImportOptions{Columns: c.given})
		for _, word := range c.want {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v has no %q", name, err, word)
			}
		}
	}
}
