package lm

import (
	"fmt"
	"maps"
	"slices"

	"popri/model/tensor"
)

// An Adapter changes the output of named projections, as LoRA does. A nil Adapter is the plain model.
type Adapter interface {
	// Apply returns y changed for the projection named module, whose input was x [B, T, in] and output y [B, T, out].
	Apply(s *tensor.Scope, module string, x, y tensor.Tensor) tensor.Tensor
}

// Model is a decoder, or a classifier ([Config.Labels]), with its weights. It is safe for concurrent forward passes as
// long as nobody updates its weights. Free releases it.
type Model struct {
	Config Config
	// Compute is the type of activations and products. Weights of another type are converted as they are used, so
	// float32 weights with Compute bfloat16 are trained in mixed precision.
	Compute tensor.DType
	// Recompute keeps only each block's input in a training pass and computes the rest again in the backward pass (Chen
	// et al. 2016, gradient checkpointing): memory that hardly grows with the layers, for a third more work.
	Recompute bool

	weights
	embedding embedding
	blocks    []block
	norm      norm // of the last block's output, or nil
	head      head
	rotary    frequencies
	files     origin
	formulas  bool // blocks are computed by their formulas although there are kernels, for tests
}

// weights are a model's parameters.
type weights struct {
	params  map[string]tensor.Tensor
	joined  []tensor.Tensor // memory of joined projections, which several params are views of
	linears map[string]*Linear
	widened map[string]tensor.Tensor // float32 copies of parameters with one dimension, see [Model.widen]
	samples bool                     // and nothing else: most originals were released, see [Options]
}

// vector is a parameter with one dimension, in float32 where there is a copy.
func (w *weights) vector(name string) tensor.Tensor {
	if t, ok := w.widened[name]; ok {
		return t
	}
	return w.params[name]
}

// An architecture is one family of checkpoints: how its config.json reads and which parts a block has.
type architecture struct {
	config func(raw []byte) (Config, error)
	fields func(c Config) map[string]any // the fields that [Model.Save] writes into config.json besides the common ones
	build  func(b *builder)
	rename func(name string) string // a checkpoint's tensor name to the one with the prefix that adapters use; "" drops it
	// residual lists the ends of the names of projections onto the residual stream, which start smaller.
	residual []string
	masked   bool   // it predicts masked tokens alone, see [LoadMasked]
	head     string // what files call the output projection; "" for lm_head.weight
}

var architectures = map[string]architecture{
	"bert":        bert,
	"gpt2":        gpt2,
	"gpt_neox":    gptNeoX,
	"gemma2":      gemma2,
	"gemma3_text": gemma3,
	"granite":     granite,
	"llama":       llama,
	"mistral":     mistral,
	"olmo2":       olmo2,
	"opt":         opt,
	"phi3":        phi3,
	"qwen2":       qwen2,
	"qwen3":       qwen3,
	"roberta":     roberta,
	"smollm3":     smollm3,
}

// Free releases the weights.
func (m *Model) Free() {
	m.unpack()
	for name, t := range m.params {
		t.Free()
		delete(m.params, name)
	}
	for _, t := range append(m.joined, m.rotary.full, m.rotary.local) {
		t.Free()
	}
	m.joined, m.rotary = nil, frequencies{}
}

// Names returns the names of all parameters, sorted. A tied head counts once.
func (m *Model) Names() []string {
	m.whole("Names")
	return slices.Sorted(maps.Keys(m.params))
}

// Param returns a parameter by name.
func (m *Model) Param(name string) tensor.Tensor { return m.params[name] }

// Parameters returns the number of weights.
func (m *Model) Parameters() int64 {
	m.whole("Parameters")
	n := int64(0)
	for _, t := range m.params {
		n += t.NumElements()
	}
	return n
}

// Linears returns the projections by name.
func (m *Model) Linears() map[string]*Linear { return m.linears }

// Copy returns a separate model with the same weights as type o.Weights. change, if not nil, is called with every
// projection's name and float32 weight and returns the weight to use instead, or the zero Tensor for the same.
func (m *Model) Copy(o Options, change func(s *tensor.Scope, l *Linear, w tensor.Tensor) tensor.Tensor) (*Model, error) {
	m.whole("Copy")
	byWeight := map[string]*Linear{}
	for _, l := range m.linears {
		byWeight[l.Name+".weight"] = l
	}
	return assemble(m.Config, o, func(s *tensor.Scope, name string, _ []int64) (tensor.Tensor, error) {
		w := m.params[name]
		if l := byWeight[name]; l != nil && change != nil {
			if changed := change(s, l, s.To(w, tensor.Float32)); changed.Defined() {
				return changed, nil
			}
		}
		return w, nil
	})
}

// Trainable marks all weights of the model as parameters and returns them in the order of [Model.Names].
func (m *Model) Trainable() ([]tensor.Tensor, error) {
	m.unpack() // the copies would not follow the training
	var params []tensor.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			p := m.params[name]
			if p.DType() != tensor.Float32 {
				return fmt.Errorf("lm: %s has the type %v, training needs float32 weights", name, p.DType())
			}
			s.RequireGrad(p, true)
			params = append(params, p)
		}
		return nil
	})
	return params, err
}
