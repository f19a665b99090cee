package trl

import (
	"os"
	"path/filepath"

	"popri/internal/cachedir"
)

// variable is the environment variable that names another folder of environments.
const variable = "POPRI_ENGINES"

// Python returns the interpreter of the environment of an engine ("trl", "vllm"), and whether it is there. The
// environments are in $POPRI_ENGINES, else in the folder engines of the cache.
func Python(engine string) (path string, ok bool) {
	dir := os.Getenv(variable)
	if dir == "" {
		cache, err := cachedir.Dir()
		if err != nil {
			return "", false
		}
		dir = filepath.Join(cache, "engines")
	}
	path, err := filepath.Abs(filepath.Join(dir, engine, "bin", "python"))
	if err != nil {
		return "", false
	}
	_, err = os.Stat(path)
	return path, err == nil
}
