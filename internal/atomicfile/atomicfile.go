package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
)

// TempPrefix starts the name of every temporary file. After a killed process, a directory can be cleaned by removing
// the files whose names start with it.
const TempPrefix = ".tmp-"

// bufferSize keeps small writes from becoming system calls; a size above 256 KiB is no faster.
const bufferSize = 256 << 10

// serial distinguishes the temporary files that one process has open for the same path.
var serial atomic.Uint64

// Write replaces the file at path by the output of write. The file gets mode 0644 less the umask, or keeps its
// permissions. Errors name path; an error of write is wrapped, so that errors.Is finds it.
func Write(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	temp, err := createTemp(dir, filepath.Base(path), 0o644)
	if err != nil {
		return err
	}
	defer func() {
		temp.Close() // if it is open, as after a panic
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	if info, statErr := os.Stat(path); statErr == nil {
		if info.IsDir() {
			return errors.New("it is a directory")
		}
		if err := temp.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
	}
	buffered := bufio.NewWriterSize(temp, bufferSize)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// Copy replaces the file at path by the content of another, as [Write] does.
func Copy(path, from string) error {
	content, err := os.Open(from)
	if err != nil {
		return err
	}
	err = Write(path, func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
	return errors.Join(err, content.Close())
}

// WriteBytes replaces the file at path by content, as [Write] does.
func WriteBytes(path string, content []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// CreateBytes writes a new file with the given mode less the umask. An existing file stays as it is and gives an error
// that is fs.ErrExist: of several processes that create one file, one succeeds.
func CreateBytes(path string, content []byte, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("creating %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	temp, err := createTemp(dir, filepath.Base(path), mode)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link replaces nothing. Some file systems have no links.
	if err := os.Link(temp.Name(), path); err != nil {
		if _, there := os.Lstat(path); there == nil || errors.Is(err, fs.ErrExist) {
			return fs.ErrExist
		}
		if err := os.Rename(temp.Name(), path); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// createTemp opens a new file next to the target. os.CreateTemp would give it mode 0600, so that a group could read no
// file of a run; here the umask decides, as for any other new file.
func createTemp(dir, base string, mode fs.FileMode) (*os.File, error) {
	for attempt := 0; ; attempt++ {
		name := filepath.Join(dir, TempName(base, os.Getpid(), serial.Add(1)))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, os.ErrExist) && attempt < 1000 {
			continue
		}
		return f, err
	}
}

// SyncDir flushes a directory's entries, so that files created, renamed or removed in it remain so after a power cut.
func SyncDir(dir string) error {
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("syncing directory %s: %w", dir, err)
	}
	return nil
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems (a few network and FUSE ones) cannot flush a directory and say so with EINVAL or ENOTSUP.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
