// Package cachedir names the folder for files that the program can make again.
package cachedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
)

// Variable is the environment variable that names another folder.
const Variable = "POPRI_CACHE"

// Dir returns $POPRI_CACHE, else the folder popri in the user's cache folder. It need not be there yet.
func Dir() (string, error) {
	if dir := os.Getenv(Variable); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w (set %s)", err, Variable)
	}
	return filepath.Join(base, "popri"), nil
}

// Unpack writes the files of a folder that comes with the program into the cache, as FOLDER/NAME-HASH with the hash of
// their content, and returns that folder. A copy with the same content is used again.
func Unpack(files fs.FS, folder, name string) (dir string, err error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	content := map[string][]byte{}
	for _, e := range entries {
		b, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", e.Name(), len(b))
		h.Write(b)
		content[e.Name()] = b
	}
	cache, err := Dir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, folder, name+"-"+hex.EncodeToString(h.Sum(nil))[:16])
	for file, b := range content {
		path := filepath.Join(dir, file)
		if info, err := os.Stat(path); err == nil && info.Size() == int64(len(b)) {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		if err := atomicfile.WriteBytes(path, b); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Forget removes files under dir, the least recently used first, until at most the given number of bytes is left. It
// keeps the file at path, hidden files, and folders.
func Forget(dir, path string, most int64) error {
	type file struct {
		path string
		fs.FileInfo
	}
	var files []file
	total := int64(0)
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another run has removed it
		}
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files = append(files, file{at, info})
			total += info.Size()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if total <= most {
			break
		}
		if f.path == filepath.Clean(path) {
			continue
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}
