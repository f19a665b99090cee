package hub

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// A data set that a program of the hub left in the cache is found by its name: the files of main, not its card, and not
// another commit's. A path that is there goes first, and what is nowhere is an error that says what to do.
func TestData(t *testing.T) {
	t.Chdir(t.TempDir())
	home := filepath.Join(t.TempDir(), "[models]")
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HUGGINGFACE_HUB_CACHE", "")
	t.Setenv("HF_HOME", home)
	put := func(name, content string) string {
		return testfile.Write(t, name, content)
	}
	folder := filepath.Join(home, "hub", "datasets--org--posts")
	main, old := strings.Repeat("a", 40), strings.Repeat("b", 40)
	put(Snapshot(folder, old)+"/train.csv", "")
	if files, err := Data("org/posts"); err == nil {
		t.Errorf("a commit that is not main: %v", files)
	}
	put(folder+"/refs/main", main+"\n")
	put(Snapshot(folder, main)+"/README.md", "")
	want := []string{put(Snapshot(folder, main)+"/posts.jsonl.gz", ""), put(Snapshot(folder, main)+"/data/train-0.parquet", "")}
	if files, err := Data("org/posts"); err != nil || !reflect.DeepEqual(files, want) {
		t.Errorf("%v, %v, want %v", files, err, want)
	}
	if _, err := Data("org/others"); err == nil || !strings.Contains(err.Error(), "hf download --repo-type dataset org/others") ||
		!strings.Contains(err.Error(), home) {
		t.Errorf("what is nowhere: %v", err)
	}
	put("org/posts", "a file")
	for _, path := range []string{"org/posts", "clients.parquet", "org/none.csv", "/tmp/none", "../none"} {
		if files, err := Data(path); err != nil || !reflect.DeepEqual(files, []string{path}) {
			t.Errorf("%s: %v, %v", path, files, err)
		}
	}
}
