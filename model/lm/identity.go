package lm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"popri/internal/atomicfile"
)

// Hashes are the hex SHA-256 of a model folder's weights and of its files with the given names, as far as it has them.
func Hashes(dir string, names ...string) (map[string]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	out := map[string]string{}
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".safetensors" && !slices.Contains(names, f.Name()) {
			continue
		}
		if out[f.Name()], err = atomicfile.SHA256(filepath.Join(dir, f.Name())); err != nil {
			return nil, fmt.Errorf("lm: %w", err)
		}
	}
	return out, nil
}

// Identity is the hex SHA-256 of what a folder's training depends on: its architecture, tokenizer and weights.
func Identity(dir string) (string, error) {
	hashes, err := Hashes(dir, "config.json", "tokenizer.json", "tokenizer_config.json")
	if err != nil {
		return "", err
	}
	if hashes["config.json"] == "" {
		return "", fmt.Errorf("lm: %s holds no model: there is no config.json", dir)
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintln(h, name, hashes[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
