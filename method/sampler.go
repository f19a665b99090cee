package method

import (
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/lm"
	"popri/lora"
	"popri/sampling"
)

// Sampler returns what draws samples of the model with adapters, nil for none: a copy of the model into which they are
// merged, or the server of generate.engine. The caller calls release at the end.
func (e Env) Sampler(adapter *lora.Adapter) (s sampling.Sampler, release func(), err error) {
	if e.Engine != nil {
		// What a killed process left is removed like its temporary files.
		remote := e.Engine.Sampler(e.Model, adapter, filepath.Join(e.Dir, atomicfile.TempPrefix+"engine"))
		return remote, func() { _ = remote.Close() }, nil // its folder is removed in any case, now or later
	}
	o := lm.Options{Weights: e.Model.Compute, Compute: e.Model.Compute, Sampling: true}
	var copied *lm.Model
	if adapter == nil {
		copied, err = e.Model.Copy(o, nil)
	} else {
		copied, err = adapter.Merge(e.Model, o)
	}
	if err != nil {
		return nil, nil, err
	}
	return copied, copied.Free, nil
}
