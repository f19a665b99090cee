//go:build !unix

package safetensors

import (
	"errors"
	"io"
	"math"
	"os"
)

// mapFile reads the whole file on systems without a supported mmap.
func mapFile(f *os.File, size int64) ([]byte, func() error, error) {
	if size > math.MaxInt {
		return nil, nil, errors.New("larger than the address space")
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, nil, err
	}
	return content, func() error { return nil }, nil
}
