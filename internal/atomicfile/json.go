package atomicfile

import (
	"encoding/json"
	"fmt"
	"os"
)

// WriteJSON writes a value to a file as indented JSON, as [Write] does.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteBytes(path, append(b, '\n'))
}

// ReadJSON reads the JSON of a file. An error of its content names the file.
func ReadJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
