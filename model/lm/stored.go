package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/model/mixture"
	"popri/model/safetensors"
)

// Stored is a model's folder, open for a program that turns it into another format.
type Stored struct {
	// Config is config.json with every field stated, as [Model.Save] writes it. The context is cut to the window of
	// models with one.
	Config map[string]any
	// Stated is config.json as it is.
	Stated map[string]any
	// Tensors are valid until Close, by the names of the model's parameters. A head that is a copy of the embedding is
	// left out.
	Tensors map[string]safetensors.Tensor
	// Close closes the files.
	Close func() error
}

// OpenStored opens a Hugging Face directory whose config.json [Load] accepts.
func OpenStored(dir string) (*Stored, error) {
	if err := mixture.Refuse(dir); err != nil {
		return nil, err
	}
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(dir, config)
	if err != nil {
		return nil, err
	}
	s := &Stored{Config: f.config.fields(), Tensors: f.tensors, Close: f.files.Close}
	raw, err := fault.ReadFile(filepath.Join(dir, configFile))
	if err == nil {
		err = json.Unmarshal(exactjson.TrimBOM(raw), &s.Stated)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lm: %w", err), s.Close())
	}
	return s, nil
}
