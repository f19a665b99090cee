package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// Temporary files that a killed process left are removed from a folder that is named by a link too.
func TestRemoveTemporaryBehindALink(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	left := testfile.Write(t, filepath.Join(dir, TempPrefix+"x-1-1"), "")
	if err := RemoveTemporary(link); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a temporary file is left (%v)", err)
	}
}

// TestCheckRemovesWhatIsAbandoned: temporary files of processes that are gone are removed, for the file that is checked
// alone.
func TestCheckRemovesWhatIsAbandoned(t *testing.T) {
	dir := t.TempDir()
	ended := exec.Command(os.Args[0], "-test.run", "^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dead, living := ended.Process.Pid, os.Getpid()
	elsewhere := func(base string) string { // of another machine
		return strings.Replace(TempName(base, dead, 1), host(), "0123abcd", 1)
	}
	files := map[string]bool{ // whether it stays
		TempName("out", dead, 1):       false,
		TempName("out", dead, 27):      false,
		TempName("out", living, 1):     true,
		TempName("out", dead, 1) + "x": true,
		TempName("out-5", dead, 1):     true,
		TempName("other", dead, 1):     true,
		TempName("out", dead, 1)[1:]:   true,
		elsewhere("out"):               false,
		elsewhere("other"):             true,
	}
	for name := range files {
		testfile.Write(t, filepath.Join(dir, name), "")
	}
	if err := Check(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for name, stays := range files {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
	RemoveAbandoned(dir)
	for _, name := range []string{TempName("out-5", dead, 1), TempName("other", dead, 1)} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s stays in a folder that is cleaned", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, TempName("out", living, 1))); err != nil {
		t.Error("a living process's file is gone")
	}
	if _, err := os.Stat(filepath.Join(dir, elsewhere("other"))); err != nil {
		t.Error("another machine's file is gone")
	}
}
