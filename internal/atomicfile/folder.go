package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Folder makes a folder, in place of one that is there: write fills it under a temporary name, and it is renamed when
// all of it is there. One process at a time may make it.
func Folder(dir string, write func(dir string) error) error {
	unfinished := filepath.Join(filepath.Dir(dir), TempPrefix+filepath.Base(dir))
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o755)); err != nil {
		return err
	}
	if err := write(unfinished); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	err := syncDir(unfinished)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err == nil {
		err = os.Rename(unfinished, dir)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}
