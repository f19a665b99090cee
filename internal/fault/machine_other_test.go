//go:build !windows

package fault_test

import "syscall"

var (
	fullDisk   = []error{syscall.ENOSPC, syscall.EDQUOT}
	brokenDisk = syscall.EIO
)
