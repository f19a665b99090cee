package fault_test

import "syscall"

// As the system numbers them: ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED; ERROR_IO_DEVICE.
var (
	fullDisk   = []error{syscall.Errno(39), syscall.Errno(112), syscall.Errno(1295)}
	brokenDisk = syscall.Errno(1117)
)
