package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// RemoveTemporary removes the temporary files that a killed process left in a folder and below it. No other process may be
// writing there.
func RemoveTemporary(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // a walk does not follow its root
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), TempPrefix) {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}
