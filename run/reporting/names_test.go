package reporting

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/cachedir"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// A model of the cache folder is shown by what it is; any other by its path.
func TestTrainedModelsAreNamed(t *testing.T) {
	root := t.TempDir()
	t.Setenv(cachedir.Variable, root)
	dir := testfile.Folder(t, filepath.Join(root, "trained", "device-0123456789abcdef"))
	if got := shownValue("downstream.model", dir); got != dir {
		t.Errorf("a model without provenance became %q", got)
	}
	provenance := `{"parameters": 953856, "corpus": "../data/public.parquet, /secret/place/books.jsonl", "corpus_sha256": "63bedbbe18b2adf2"}`
	testfile.Write(t, filepath.Join(dir, "provenance.json"), provenance)
	want := "trained (1.0 M parameters, on public.parquet, books.jsonl, SHA-256 63bedbbe18b2)"
	for _, key := range []string{"downstream.model", "model.path"} {
		if got := shownValue(key, dir); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := shownValue("data.public", dir); got != dir {
		t.Errorf("another key became %q", got)
	}
	elsewhere := filepath.Join(root, "mine")
	if err := os.Rename(dir, elsewhere); err != nil {
		t.Fatal(err)
	}
	if got := shownValue("downstream.model", elsewhere); got != elsewhere {
		t.Errorf("a model elsewhere became %q", got)
	}
	w := testworld.Shared(t)
	if got := smallModel(w.Config); !strings.Contains(got, "M parameters and is the one of the folder") {
		t.Errorf("the sentence is %q", got)
	}
}
