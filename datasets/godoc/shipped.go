package godoc

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// shipped is the comments of a release of Go as a file, for machines without it.
type shipped struct {
	Version string
	Files   []file // in the order of readTree
}

// shippedPath is where the file lies that was installed with the program.
func shippedPath() string {
	program, _ := os.Executable()
	real, _ := filepath.EvalSymlinks(program) // "", and no file, where that is not known
	return filepath.Join(filepath.Dir(filepath.Dir(real)), "share/popri/godoc.json.gz")
}

// readShipped reads such a file.
func readShipped(path string) (*shipped, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("godoc: %w", err)
	}
	defer f.Close()
	s := new(shipped)
	in, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(in).Decode(s)
	}
	if err != nil {
		return nil, fmt.Errorf("godoc: %s: %w", path, err)
	}
	return s, nil
}
