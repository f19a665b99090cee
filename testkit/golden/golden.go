// Package golden finds the reference vectors for the TestGolden… tests.
//
// The folder is the one that $POPRI_GOLDEN names, by default testdata/golden at the root of the repository. Tests read
// the lists inside the folder and name no case, number or size themselves, so that they check every case that is there.
// A kind of case without a test must stand in [NotBuilt]; any other unknown kind fails.
package golden

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"testing"

	"popri/internal/atomicfile"
)

// NotBuilt lists, as path.Match patterns, the kinds of cases that popri does not cover yet. `make golden` prints it. It
// may only shrink.
var NotBuilt = []string{}

// Root returns the folder of golden data. If the variable names a missing folder, the test fails; it is never skipped.
func Root(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("POPRI_GOLDEN")
	if dir == "" {
		dir = own()
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatalf("golden data: %s is not a folder (POPRI_GOLDEN=%q): %v", dir, os.Getenv("POPRI_GOLDEN"), err)
	}
	return dir
}

// Folder returns the folder of a kind of cases inside [Root]. A collection that lacks it leaves it to the repository's
// own folder, which then is compared with: kinds whose cases are made here (scripts/gguf_cases.py, grpo_cases.py,
// sentence_cases.py) are in no other.
func Folder(t testing.TB, kind string) string {
	t.Helper()
	dir := filepath.Join(Root(t), kind)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Join(own(), kind)
		t.Logf("golden: %s is taken from testdata/golden", kind)
	}
	return dir
}

// own is the repository's own folder.
func own() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "testdata", "golden")
}

// ReadJSON reads a file of golden data into v, or fails.
func ReadJSON(t testing.TB, path string, v any) {
	t.Helper()
	if err := atomicfile.ReadJSON(path, v); err != nil {
		t.Fatalf("golden data: %v", err)
	}
}

// Unbuilt reports whether kind is in [NotBuilt]. A test calls it for every kind that it does not handle: true means to
// ignore the kind, false has already failed the test.
func Unbuilt(t testing.TB, kind string) bool {
	t.Helper()
	for _, pattern := range NotBuilt {
		if ok, _ := path.Match(pattern, kind); ok {
			return true
		}
	}
	t.Errorf("golden data: no test understands the kind %q and it is not in golden.NotBuilt", kind)
	return false
}

// Checked records that a test compared n cases of a kind. It fails for n = 0, because a test without cases proves
// nothing.
func Checked(t testing.TB, kind string, n int) {
	t.Helper()
	if n == 0 {
		t.Errorf("golden data: no case of kind %q was found under %s", kind, Root(t))
	}
	t.Logf("golden: %-40s %6d cases", kind, n)
}
