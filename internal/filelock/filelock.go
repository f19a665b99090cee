// Package filelock keeps a second process from working on the same files.
//
// The operating system holds the lock, on a file next to the guarded ones, so the lock ends with the process however
// the process ends: no stale locks remain. The file itself stays.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrLocked marks a lock that another process, or another Lock of this one, holds.
var ErrLocked = errors.New("locked by another process")

// Lock is a held lock.
type Lock struct{ file *os.File }

// Acquire takes the lock on the file at path, creating it, or fails at once with an error that is [ErrLocked] and
// names the path and, where known, the process that holds it.
func Acquire(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	held, err := tryLock(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !held {
		defer file.Close()
		owner := "another process"
		if b, err := io.ReadAll(io.LimitReader(file, 32)); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				owner = fmt.Sprintf("process %d", pid)
			}
		}
		return nil, fmt.Errorf("%s: %w (%s): wait until it ends or use another directory", path, ErrLocked, owner)
	}
	// The number only informs people; the lock is held even if the number cannot be written, as on a full disk.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{file}, nil
}

// Release gives the lock back.
func (l *Lock) Release() error {
	if l == nil || l.file == nil {
		return nil
	}
	err := l.file.Close() // closing unlocks
	l.file = nil
	return err
}

// Folder waits for the lock on a folder itself, which leaves no file. Where the system or the file system has no such
// locks, it returns a lock that guards nothing.
func Folder(dir string) (*Lock, error) {
	if !lockable {
		return &Lock{}, nil // an open folder could not be renamed on Windows
	}
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	waitLock(file)
	return &Lock{file}, nil
}

// TempFolder makes a new folder in/PREFIX… for work on its way, which remove removes with all that is in it, and
// removes those that killed processes left there.
func TempFolder(in, prefix string) (dir string, remove func(), err error) {
	if err := abandoned(in, prefix); err != nil {
		return "", nil, err
	}
	for {
		if dir, err = os.MkdirTemp(in, prefix); err != nil {
			return "", nil, err
		}
		held, err := Folder(dir)
		if _, there := os.Stat(dir); errors.Is(there, os.ErrNotExist) {
			_ = held.Release()
			continue // another process took it for abandoned before it was locked
		}
		if err != nil {
			os.RemoveAll(dir)
			return "", nil, err
		}
		return dir, func() { held.Release(); os.RemoveAll(dir) }, nil
	}
}

// abandoned removes the folders dir/PREFIX* that no process holds by [Folder]: what killed processes left. A folder
// that cannot be locked or removed stays.
func abandoned(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if held, err := tryLock(file); err == nil && held && lockable {
			_ = os.RemoveAll(path)
		}
		file.Close()
	}
	return nil
}
