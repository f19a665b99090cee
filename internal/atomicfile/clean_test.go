package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	files := map[string]bool{ // whether it stays
		fmt.Sprintf("%sout-%d-1", TempPrefix, dead):   false,
		fmt.Sprintf("%sout-%d-27", TempPrefix, dead):  false,
		fmt.Sprintf("%sout-%d-1", TempPrefix, living): true,
		fmt.Sprintf("%sout-%d-x", TempPrefix, dead):   true,
		fmt.Sprintf("%sout-5-%d-1", TempPrefix, dead): true, // of a file named out-5
		fmt.Sprintf("%sother-%d-1", TempPrefix, dead): true,
		fmt.Sprintf("%sout%d-1", TempPrefix, dead):    true,
		fmt.Sprintf("out-%d-1", dead):                 true,
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
	for _, name := range []string{fmt.Sprintf("%sout-5-%d-1", TempPrefix, dead), fmt.Sprintf("%sother-%d-1", TempPrefix, dead)} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s stays in a folder that is cleaned", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("%sout-%d-1", TempPrefix, living))); err != nil {
		t.Error("a living process's file is gone")
	}
}
