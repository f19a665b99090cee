package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// RemoveTemporary removes the temporary files that a killed process left in a folder and below it. No other process may
// be writing there.
func RemoveTemporary(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // a walk does not follow its root
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), TempPrefix) {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// removeAbandoned removes the temporary files of path whose processes are gone from this machine. One that cannot be
// removed stays: it is in nobody's way.
func removeAbandoned(path string) {
	dir, prefix := filepath.Dir(path), TempPrefix+filepath.Base(path)+"-"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), prefix)
		number, serial, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if _, bad := strconv.ParseUint(serial, 10, 64); !ours || err != nil || bad != nil || !e.Type().IsRegular() {
			continue // of another file, or of no process
		}
		if !alive(pid) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// alive reports whether there may be a process of that number.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
