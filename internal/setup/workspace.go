package main

import (
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
)

// writeWorkspace writes popri's own go.work, only when it changes, so that Go's caches stay valid.
func writeWorkspace(root, gotch string) error {
	text := fmt.Sprintf("go 1.26.0\n\nuse .\n\nreplace %s %s => %s\n", gotchModule, gotchVersion, gotch)
	path := filepath.Join(root, "go.work")
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return atomicfile.WriteBytes(path, []byte(text))
}
