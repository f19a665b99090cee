// Package datakey keeps the user's secret key for tags of private data.
//
// A privacy ledger must tell whether two runs used the same private data, and a ledger is published. A plain hash of
// the data would let anybody who knows all clients but one test guesses about that one. So the ledger holds an HMAC
// under this key, which reveals nothing to those who do not have the key.
//
// The key is in the user's configuration folder ("popri/data.key", mode 0600), or where POPRI_KEY_FILE says. It is made
// at first use. Runs that are to share a budget need the same key: ledgers made under another key, or after the key was
// lost, are about data that nobody can compare. The key must stay with the data and must not be published.
package datakey

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"popri/internal/atomicfile"
)

// Variable names the environment variable that holds the path of the key file.
const Variable = "POPRI_KEY_FILE"

// size is the length of a key in bytes.
const size = 32

// errKey marks a key file that cannot be read, written or understood. The user must correct it.
var errKey = errors.New("key for tags of private data")

// Path returns the file that holds the key.
func Path() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("%w: no configuration folder (%v); set %s to the path of a file", errKey, err, Variable)
	}
	return filepath.Join(dir, "popri", "data.key"), nil
}

// Load returns the key and makes one if there is none.
func Load() ([]byte, error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	key, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("%w: %w; set %s to a file that can be written", errKey, err, Variable)
	}
	return read(path) // another process was faster
}

func read(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKey, err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(content)))
	if err != nil || len(key) != size {
		return nil, fmt.Errorf("%w: %s does not hold %d hexadecimal digits; restore it from a copy", errKey, path, 2*size)
	}
	return key, nil
}

// create writes a new key. An existing key stays.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	err := atomicfile.CreateBytes(path, []byte(hex.EncodeToString(key)+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
