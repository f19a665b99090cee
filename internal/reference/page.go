package reference

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// rewrite is the flag with which make docs calls the tests.
var rewrite = flag.Bool("rewrite-docs", false, "write the reference pages in docs/ instead of comparing them")

// Root returns the path of a file of the repository.
func Root(path ...string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(here), "..", ".."}, path...)...)
}

// Check fails unless the page docs/name has this content, or writes it if the tests are called with -rewrite-docs.
func Check(t *testing.T, name string, content []byte) {
	t.Helper()
	path := Root("docs", name)
	if *rewrite {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, content) {
		t.Errorf("docs/%s is not current: make docs rewrites it", name)
	}
}
