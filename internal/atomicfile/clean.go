package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// temporary is the name of a temporary file: of the file that it was to become, of a process, and a number.
var temporary = regexp.MustCompile(`^` + regexp.QuoteMeta(TempPrefix) + `(.+)-(\d+)-\d+$`)

// RemoveAbandoned removes the temporary files in a folder whose processes are gone from this machine. One that cannot be
// removed stays: it is in nobody's way.
func RemoveAbandoned(dir string) { removeAbandoned(dir, "") }

// removeAbandoned removes the temporary files of one file, or of all ("").
func removeAbandoned(dir, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		m := temporary.FindStringSubmatch(e.Name())
		if m == nil || name != "" && m[1] != name || !e.Type().IsRegular() {
			continue // of another file, or of no process
		}
		if pid, err := strconv.Atoi(m[2]); err == nil && !alive(pid) {
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
