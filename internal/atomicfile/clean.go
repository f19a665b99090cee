package atomicfile

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
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

// temporary is the name of a temporary file: of the file that it was to become, of a machine (earlier versions named none)
// and a process, and a number.
var temporary = regexp.MustCompile(`^` + regexp.QuoteMeta(TempPrefix) + `(.+?)(?:-([0-9a-f]{8}))?-(\d+)-\d+$`)

// host stands for this machine, or container: the processes of others, which may share a folder, have numbers of their own.
var host = sync.OnceValue(func() string {
	name, _ := os.Hostname() // without a name, all are one
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(name)))
})

// TempName is the name of the n-th temporary file of a process of this machine that is to become the file base.
func TempName(base string, pid int, n uint64) string {
	return fmt.Sprintf("%s%s-%s-%d-%d", TempPrefix, base, host(), pid, n)
}

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
		if m == nil || !e.Type().IsRegular() {
			continue // of no process
		}
		if name != "" && m[1] != name || name == "" && m[2] != "" && m[2] != host() {
			continue // of another file; or of another machine, which may be writing it
		}
		if pid, err := strconv.Atoi(m[3]); err == nil && !alive(pid) {
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
