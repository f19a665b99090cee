// Package cachedir names the folder for files that the program can make again.
package cachedir

import (
	"fmt"
	"os"
	"path/filepath"
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
