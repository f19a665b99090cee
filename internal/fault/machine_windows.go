package fault

import "golang.org/x/sys/windows"

// full are the errors of a disk, or a share of one, without room. The system's own codes are other numbers than package
// syscall's ENOSPC, which no call returns here.
var full = []error{windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// failing are the errors of a file that the file system cannot hold, of a disk that is broken, of no memory, and of no
// file handles.
var failing = []error{windows.ERROR_FILE_TOO_LARGE, windows.ERROR_CRC, windows.ERROR_IO_DEVICE,
	windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_OUTOFMEMORY, windows.ERROR_TOO_MANY_OPEN_FILES}
