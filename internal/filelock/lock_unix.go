//go:build unix && !solaris && !illumos && !aix

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

func tryLock(file *os.File) (bool, error) {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
			continue
		}
		return false, err
	}
}

// lockable says that folders have locks.
const lockable = true

// waitLock waits for the lock. A file system without locks on folders, such as some of NFS, is passed over.
func waitLock(file *os.File) {
	for unix.Flock(int(file.Fd()), unix.LOCK_EX) == unix.EINTR {
	}
}
