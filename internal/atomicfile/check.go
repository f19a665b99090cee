package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Check returns the error that [Write] would meet when it begins to write the file at path, before the work whose
// result it is. It leaves nothing, and removes what dead processes left of this file: their temporary files may hold
// private text.
func Check(path string) error {
	if err := check(path); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	removeAbandoned(filepath.Dir(path), filepath.Base(path))
	return nil
}

func check(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	}
	return try(filepath.Dir(path), filepath.Base(path))
}

// try makes a temporary file and removes it.
func try(dir, base string) error {
	temp, err := createTemp(dir, base, 0o600)
	if err != nil {
		return err
	}
	err = os.Remove(temp.Name())
	if errors.Is(err, fs.ErrNotExist) { // by another process that works here and cleans the folder
		err = nil
	}
	return errors.Join(temp.Close(), err)
}

// CheckFolder returns the error that making the folder, with those above it, and writing a first file in it would meet.
// It leaves nothing: of a folder that does not exist, the nearest one above it that does is tried.
func CheckFolder(dir string) error {
	if err := checkFolder(dir); err != nil {
		return fmt.Errorf("the folder %s cannot be written: %w", dir, err)
	}
	return nil
}

func checkFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch above := filepath.Dir(dir); {
	case err == nil && info.IsDir():
		err := try(dir, "try")
		if path := (*fs.PathError)(nil); errors.As(err, &path) { // the temporary file's name would tell a user nothing
			return fmt.Errorf("%s: %w", dir, path.Err)
		}
		return err
	case err == nil:
		return fmt.Errorf("%s is a file", dir)
	case above == dir || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR): // a file further up gives ENOTDIR
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is a link to what does not exist", dir)
	}
	return checkFolder(filepath.Dir(dir))
}
