package godoc

import (
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

// shippedPath is the path of the file that was installed with the program.
func shippedPath() string {
	program, _ := os.Executable() // without symbolic links, on Linux
	return filepath.Join(filepath.Dir(filepath.Dir(program)), "share/popri/godoc.json")
}

func readShipped(path string) (s shipped, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		err = fmt.Errorf("godoc: %s: %w", path, err)
	}
	return s, err
}
