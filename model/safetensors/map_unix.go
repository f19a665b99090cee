//go:build unix

package safetensors

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int64) ([]byte, func() error, error) {
	if size > math.MaxInt {
		return nil, nil, errors.New("larger than the address space")
	}
	content, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return content, func() error { return unix.Munmap(content) }, nil
}
