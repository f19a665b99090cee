package method

import (
	"errors"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/lora"
	"popri/methods/sampling"
	"popri/model/lm"
)

// WithSampler calls use with what draws samples of the model with adapters, nil for none: the server of
// generate.engine; a copy of the model into which they are merged; or with model.weights "compute" the model itself,
// which is as before afterwards.
func (e Env) WithSampler(adapter *lora.Adapter, use func(sampling.Sampler) error) error {
	switch {
	case e.Engine != nil:
		// What a killed process left is removed like its temporary files.
		remote := e.Engine.Sampler(e.Model, adapter, filepath.Join(e.Dir, atomicfile.TempPrefix+"engine"))
		defer remote.Close() // its folder is removed in any case, now or later
		return use(remote)
	case e.Config.Model.Weights == "compute" && adapter == nil:
		return use(e.Model)
	case e.Config.Model.Weights == "compute":
		undo, err := adapter.MergeInPlace(e.Model)
		if err != nil {
			return err
		}
		return errors.Join(use(e.Model), undo())
	}
	o := lm.Options{Weights: e.Model.Compute, Compute: e.Model.Compute, Sampling: true,
		Bytes: e.Config.Generate.Weights == "int8"}
	var copied *lm.Model
	var err error
	if adapter == nil {
		copied, err = e.Model.Copy(o, nil)
	} else {
		copied, err = adapter.Merge(e.Model, o)
	}
	if err != nil {
		return err
	}
	defer copied.Free()
	return use(copied)
}
