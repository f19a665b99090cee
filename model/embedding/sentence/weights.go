package sentence

import (
	"fmt"
	"slices"

	"popri/internal/numeric"
	"popri/model/safetensors"
)

// Weights are the tensors of a network. Matrices are [out, in], rows one after another. What a kind of network does not
// have is nil.
type Weights struct {
	Word         []float32 // [vocabulary, hidden]
	Position     []float32 // [context, hidden], the embedding of token type 0 added
	NormW, NormB []float32 // of the embeddings
	Relative     []float32 // [buckets, heads], see [Config.RelativeBias]
	Layers       []Layer
	FinalNorm    []float32
}

// Layer is one block.
type Layer struct {
	QKV, QKVBias         []float32 // queries, keys and values below one another: [3·heads·head, hidden]
	Out, OutBias         []float32 // [hidden, heads·head]
	AttnNormW, AttnNormB []float32
	Up, UpBias           []float32 // [inner, hidden]
	Gate                 []float32 // [inner, hidden], multiplied by the activation of Up
	Down, DownBias       []float32 // [hidden, inner]
	MLPNormW, MLPNormB   []float32
}

// Weights reads all tensors, once. A tensor that no part of the network uses is an error.
func (f *Folder) Weights() (*Weights, error) {
	r := &reader{folder: f}
	var w *Weights
	if f.Config.Kind == kindT5 {
		w = f.t5Weights(r)
	} else {
		w = f.bertWeights(r)
	}
	if r.err != nil {
		return nil, r.err
	}
	for name := range f.names {
		return nil, fmt.Errorf("embedding: %s: the checkpoint holds the tensor %s, which a model of the type %s with "+
			"this config.json does not have", f.Dir, name, f.Config.Kind)
	}
	return w, nil
}

// reader takes tensors until one is wrong.
type reader struct {
	folder *Folder
	err    error
}

// take returns the float32 values of a tensor by its name in the reference's model. It must have the given shape.
func (r *reader) take(name string, shape ...int) []float32 {
	if r.err != nil {
		return nil
	}
	f := r.folder
	in, ok := f.names[name]
	if !ok {
		r.err = fmt.Errorf("embedding: %s: tensor %s is missing", f.Dir, name)
		return nil
	}
	delete(f.names, name)
	t, _ := f.files.Tensor(in)
	var x []float32
	if x, r.err = values(f.Dir, name, t, numeric.Convert[int64](shape)); r.err != nil {
		r.err = fmt.Errorf("embedding: %w", r.err)
	}
	return x
}

// values returns the float32 values of a tensor that must have this shape and be finite.
func values(where, name string, t safetensors.Tensor, want []int64) ([]float32, error) {
	if !slices.Equal(t.Shape, want) {
		return nil, fmt.Errorf("%s: tensor %s has shape %v, config.json makes it %v", where, name, t.Shape, want)
	}
	if err := t.CheckFinite(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	x, err := t.Float32s()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return x, nil
}
