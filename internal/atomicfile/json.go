package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// SHA256 returns the hex SHA-256 of a file's content.
func SHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
