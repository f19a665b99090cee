// Package shipped carries the two small models that come with popri: the generator, trained on all public text of the
// embedded default, and the device model, trained on the part that prompts quote (the ε = 0 point). Each folder's
// provenance.json names the command, seed, corpus and Go release that made it.
package shipped

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"

	"popri/internal/cachedir"
)

//go:embed all:godoc
var files embed.FS

// The models' names.
const (
	Generator = "generator"
	Device    = "device"
)

// provenance is the part of a model's provenance.json about its training data.
type provenance struct {
	Command    string `json:"command"`
	Commit     string `json:"program_commit"` // of the program that ran the command
	GoVersion  string `json:"go_version"`
	CorpusHash string `json:"corpus_sha256"` // of all public text; see datasets.Public.Hash
}

// ReadProvenance returns it.
func ReadProvenance(name string) (provenance, error) {
	var p provenance
	b, err := files.ReadFile("godoc/" + name + "/provenance.json")
	if err != nil {
		return p, fmt.Errorf("models: there is no embedded model %q", name)
	}
	return p, json.Unmarshal(b, &p)
}

// Dir unpacks a model into the cache folder (see cachedir), where weights can be mapped into memory, and returns its
// folder. An unpacked copy with the same content is used again.
func Dir(name string) (string, error) {
	model, err := fs.Sub(files, "godoc/"+name)
	if err != nil {
		return "", fmt.Errorf("models: %w", err)
	}
	if _, err := fs.Stat(model, "."); err != nil {
		return "", fmt.Errorf("models: there is no embedded model %q", name)
	}
	dir, err := cachedir.Unpack(model, "models", name)
	if err != nil {
		return "", fmt.Errorf("models: %w", err)
	}
	return dir, nil
}
