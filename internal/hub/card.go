package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// Card reads the front matter of a model folder's README.md; nil without a card, or where it has none.
func Card(dir string) (fields map[string]any, err error) {
	file := filepath.Join(dir, "README.md")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if parts := strings.SplitN("\n"+string(b), "\n---", 3); err == nil && len(parts) == 3 && parts[0] == "" {
		err = yaml.Unmarshal([]byte(parts[1]), &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return fields, nil
}
