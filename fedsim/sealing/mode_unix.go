//go:build unix

package sealing

import (
	"io/fs"
	"os"
	"syscall"
)

// exposed reports whether others than those who should may read a private key's file. A group may read a file of root's
// if this process is not root's: so Kubernetes gives secrets to the user of a container.
func exposed(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return exposedTo(info.Mode().Perm(), ok && stat.Uid == 0 && os.Geteuid() != 0)
}
