package atomicfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// ReadJSONIfAny is [ReadJSON] of a file that may be missing; there says whether it is there.
func ReadJSONIfAny(path string, into any) (there bool, err error) {
	if err = ReadJSON(path, into); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
