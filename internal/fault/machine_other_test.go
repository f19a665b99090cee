//go:build !windows

package fault_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"popri/internal/fault"
)

var (
	fullDisk   = []error{syscall.ENOSPC, syscall.EDQUOT}
	brokenDisk = syscall.EIO
)

// A pipe into which nobody writes is refused, and not waited for.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	_, opened := fault.Open(path)
	if _, read := fault.ReadFile(path); !fault.IsUser(opened) || strings.Count(fmt.Sprint(opened, read), path+" is a pipe") != 2 {
		t.Error(opened, read)
	}
}
