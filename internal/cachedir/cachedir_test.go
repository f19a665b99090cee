package cachedir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"popri/testkit/testfile"
)

func TestDir(t *testing.T) {
	t.Setenv(Variable, "/somewhere")
	if dir, err := Dir(); err != nil || dir != "/somewhere" {
		t.Errorf("with %s: %q, %v", Variable, dir, err)
	}
	t.Setenv(Variable, "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	t.Setenv("HOME", "/home/user")
	if dir, err := Dir(); err != nil || filepath.Base(dir) != "popri" || !filepath.IsAbs(dir) {
		t.Errorf("without %s: %q, %v", Variable, dir, err)
	}
}

// TestForget: the files that were used longest ago go first, and the one that was just written stays.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, name := range []string{"newest", "oldest", "deep/older", ".lock"} {
		path := testfile.Write(t, filepath.Join(dir, name), make([]byte, 100))
		at := now.Add([]time.Duration{0, -3 * time.Hour, -2 * time.Hour, -9 * time.Hour}[i])
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	left := func(most int64, path string, want ...string) {
		t.Helper()
		if err := Forget(dir, filepath.Join(dir, path), most); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range []string{".lock", "deep/older", "newest", "oldest"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				names = append(names, name)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("with at most %d bytes: %q are left, want %q", most, names, want)
		}
	}
	left(300, "newest", ".lock", "deep/older", "newest", "oldest")
	left(299, "oldest", ".lock", "newest", "oldest")
	left(1, "newest", ".lock", "newest")
}
