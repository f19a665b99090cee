//go:build unix

package watch

import "golang.org/x/sys/unix"

// handles is the number of file handles that the process may have open.
func handles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 4 * maxConnections
	}
	return int(min(limit.Cur, 4*maxConnections))
}
