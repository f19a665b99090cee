package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"notes/a.txt": "one\n\ntwo\n",
		"notes/b.txt": "three\n", "clients.jsonl": `{"client_id":"a","text":"mine","date":"2024-05-01"}` + "\n" +
			`{"client_id":"b","text":"not mine"}` + "\n" +
			`{"client_id":"a","text":"mine too"}` + "\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		source Source
		since  string
		want   []string
	}{
		{Source{Path: "notes", Most: 1}, "", []string{"three"}},
		{Source{Path: "notes"}, "", []string{"one", "two", "three"}},
		{Source{Path: "clients.jsonl", Client: "a"}, "", []string{"mine", "mine too"}},
		{Source{Path: "clients.jsonl", Client: "a"}, "2024-06-01", []string{"mine too"}}, // without a date it counts
		{Source{Path: "-", In: strings.NewReader("\n\none\nline\n\n\ntwo")}, "", []string{"one line", "two"}},
		{Source{Path: "-", In: strings.NewReader("")}, "", nil},
	} {
		if c.source.Path != "-" {
			c.source.Path = filepath.Join(dir, c.source.Path)
		}
		got, err := c.source.Read(c.since)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v since %q: %q, %v, want %q", c.source, c.since, got, err, c.want)
		}
	}
}
