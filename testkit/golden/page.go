package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// rewrite is the flag with which make docs calls the tests.
var rewrite = flag.Bool("rewrite-docs", false, "write the reference pages in docs/ instead of comparing them")

// Repository returns the path of a file of the repository.
func Repository(path ...string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(here), "..", ".."}, path...)...)
}

// Page keeps a reference page under docs/ equal to what the program says itself: settings.md, written from the comments
// of the settings, and commands.md, from the help of the commands. It fails unless the page docs/name has this content,
// or writes it if the tests are called with -rewrite-docs.
func Page(t *testing.T, name string, content []byte) {
	t.Helper()
	path := Repository("docs", name)
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

// Code writes a value without spaces at its ends for a table's cell.
func Code(text string) string { return "`" + Cell(text) + "`" }

// Cell keeps a text within its cell of a table.
func Cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
