// Package speeches has clients' texts that are public, and public text that is far from them, for a demo that needs no
// file: addresses of United States presidents, and books. Its README.md names the sources.
package speeches

import (
	"embed"
	"path/filepath"

	"popri/internal/cachedir"
)

//go:embed *.parquet
var files embed.FS

// Public is the content of the file of public text.
func Public() ([]byte, error) { return files.ReadFile("public.parquet") }

// Files unpacks the two files into the user's cache folder and returns their paths.
func Files() (clients, public string, err error) {
	dir, err := cachedir.Unpack(files, "worlds", "speeches")
	return filepath.Join(dir, "clients.parquet"), filepath.Join(dir, "public.parquet"), err
}
