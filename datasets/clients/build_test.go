package clients

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"ann.txt":       "One  two three.\n\nFour five six seven eight\nnine.\n \nx",
		"bob/1.md":      "In a folder.",
		"bob/deep/2.md": "Deeper in it.",
		".hidden":       "Not this one.",
		"empty.txt":     "\n\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Build(dir, BuildOptions{Words: 4, MinWords: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := []Client{
		{ID: "ann", Split: Train, Texts: []string{"One two three.", "Four five six seven", "eight nine."}},
		{ID: "bob", Split: Train, Texts: []string{"In a folder.", "Deeper in it."}},
	}
	if !reflect.DeepEqual(p.Clients, want) {
		t.Errorf("got %+v, want %+v", p.Clients, want)
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(dir, want string) {
		t.Helper()
		if _, err := Build(dir, BuildOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	write("ann.md", "Another two words.")
	fails(dir, `both be client "ann"`)
	write("ann.md", "\xff")
	fails(dir, "ann.md: bad file: it is not UTF-8")
	fails(t.TempDir(), "no file with a text")
	fails(filepath.Join(dir, "nowhere"), "nowhere")
}

func TestBuildSplits(t *testing.T) {
	o := BuildOptions{Validation: 0.1, Test: 0.2}
	count := map[Split]float64{}
	const n = 4000
	for i := range n {
		count[o.split(fmt.Sprint(i))]++
	}
	for split, share := range map[Split]float64{Train: 0.7, Validation: 0.1, Test: 0.2} {
		if off := math.Abs(count[split]/n - share); off > 5*math.Sqrt(share*(1-share)/n) {
			t.Errorf("%s has %g of %d clients", split, count[split], n)
		}
	}
}
