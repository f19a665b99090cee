package lm

import "popri/model/safetensors"

// Stored is a model's folder, open for a program that turns it into another format.
type Stored struct {
	// Config is config.json with every field stated, as [Model.Save] writes it. The context is cut to the window of
	// models with one.
	Config map[string]any
	// Tensors are valid until Close, by the names of the model's parameters. A head that is a copy of the embedding is
	// left out.
	Tensors map[string]safetensors.Tensor
	// Close closes the files.
	Close func() error
}

// OpenStored opens a Hugging Face directory whose config.json [Load] accepts.
func OpenStored(dir string) (*Stored, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(dir, config)
	if err != nil {
		return nil, err
	}
	return &Stored{Config: f.config.fields(), Tensors: f.tensors, Close: f.files.Close}, nil
}
