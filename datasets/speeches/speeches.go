// Package speeches has clients' texts that are public, and public text that is far from them, for a demo that needs no file:
// addresses of United States presidents, and books. Its README.md names the sources.
package speeches

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/cachedir"
)

var (
	//go:embed clients.parquet
	clientRows []byte
	//go:embed public.parquet
	publicRows []byte
)

// Files writes the two files into the user's cache folder, unless they are there, and returns their paths.
func Files() (clientFile, publicFile string, err error) {
	base, err := cachedir.Dir()
	if err != nil {
		return "", "", err
	}
	hash := sha256.New()
	hash.Write(clientRows)
	hash.Write(publicRows)
	dir := filepath.Join(base, "worlds", "speeches-"+hex.EncodeToString(hash.Sum(nil)[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	clientFile, publicFile = filepath.Join(dir, "clients.parquet"), filepath.Join(dir, "public.parquet")
	return clientFile, publicFile, errors.Join(keep(clientFile, clientRows), keep(publicFile, publicRows))
}

// keep writes a file unless one of that size is there: the folder is named by what its files hold, and they are written at once
// or not at all.
func keep(path string, content []byte) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() == int64(len(content)) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.WriteBytes(path, content)
}
