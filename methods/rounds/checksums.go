package rounds

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rundir"
)

// seal notes the hash of each file of a complete round, as sha256sum writes and checks them.
func seal(dir string) error {
	var out bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == rundir.Checksums {
			return err
		}
		hash, err := atomicfile.SHA256(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(&out, "%s  %s\n", hash, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, rundir.Checksums), out.Bytes())
}

// unchanged returns the user's error if a file of a complete round is gone or has another content than when the round
// ended: later rounds, the synthetic set and the report stand on it. Files that came later do not count, nor do rounds of
// versions that noted no hashes.
func unchanged(dir string) error {
	file := filepath.Join(dir, rundir.Checksums)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for lines, n := bufio.NewScanner(bytes.NewReader(content)), 1; lines.Scan(); n++ {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		path := filepath.Join(dir, filepath.FromSlash(name))
		if !ok || !filepath.IsLocal(filepath.FromSlash(name)) {
			return fault.Userf("%s: line %d is no hash and file name", file, n)
		}
		got, err := atomicfile.SHA256(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fault.Userf("%s is gone since its round ended (%s names it): restore it from a copy, or begin "+
				"again in another folder", path, rundir.Checksums)
		case err != nil:
			return err
		case got != want:
			return fault.Userf("%s has changed since its round ended (sha256 %.12s…, was %.12s…): restore it from a "+
				"copy, or begin again in another folder", path, got, want)
		}
	}
	return nil
}
