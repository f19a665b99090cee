//go:build !windows

package fault

import "syscall"

// full are the errors of a disk, or a share of one, without room.
var full = []error{syscall.ENOSPC, syscall.EDQUOT}

// failing are the errors of a limit on files, of a disk that is broken, of no memory, and of no file handles.
var failing = []error{syscall.EFBIG, syscall.EIO, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE}
