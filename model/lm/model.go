package lm

import (
	"maps"
	"slices"

	"popri/model/safetensors"
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

	params      map[string]tensor.Tensor
	shared      []tensor.Tensor // memory of joined projections, which several params are views of
	linears     map[string]*Linear
	tok, pos    tensor.Tensor // [V, H], [context, H]
	frequencies tensor.Tensor // float32 of rotary positions, half as many as turned dimensions of a head
	localFreqs  tensor.Tensor // the same of local layers, where they have their own
	embedScale  float64       // by which embeddings are multiplied; 0 for not at all
	types       tensor.Tensor // [types, H], of BERT
	embedNorm   norm          // after the embeddings, of BERT; else nil
	head        tensor.Tensor // [V, H]; of a classifier [C, H]
	headBias    tensor.Tensor // [V], of BERT
	pooler      *Linear       // before the head of a BERT that classifies; else nil
	headPacked  *tensor.Packed
	headBack    *tensor.Packed           // its transpose, of [Model.Freeze]
	headCast    tensor.Tensor            // of [Model.Leaves], or none
	vectors     map[string]tensor.Tensor // float32 copies of parameters with one dimension, see [Model.widen]
	samples     bool                     // and nothing else, see [Options]
	norm        norm
	blocks      []block

	dir    string           // that the model was loaded from, with its files' stamps; "" if it was made
	stamps map[string]stamp // by name
}

type block struct {
	attnNorm, mlpNorm norm // nil for none
	attnOut, mlpOut   norm // of the outputs of attention and MLP before they join the residual stream; nil for none
	after             bool // the norms are applied to the sums with the residual stream, not to the inputs
	attn              *attention
	mlp               mlp
}

func (b block) projections() []projection {
	return append([]projection{b.attn.qkv, b.attn.out}, b.mlp.projections()...)
}

// An architecture is one family of checkpoints: how its config.json reads and which parts a block has.
type architecture struct {
	config func(raw []byte) (Config, error)
	fields func(c Config) map[string]any // the fields that [Model.Save] writes into config.json besides the common ones
	build  func(m *Model, b *builder)
	rename func(name string) string // a checkpoint's tensor name to the one with the prefix that adapters use; "" drops it
	// residual lists the ends of the names of projections onto the residual stream, which start smaller.
	residual []string
	masked   bool // it predicts masked tokens alone, see [LoadMasked]
}

var architectures = map[string]architecture{
	"bert":        bert,
	"gpt2":        gpt2,
	"gemma2":      gemma2,
	"gemma3_text": gemma3,
	"granite":     granite,
	"llama":       llama,
	"mistral":     mistral,
	"olmo2":       olmo2,
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
	for _, t := range m.shared {
		t.Free()
	}
	m.frequencies.Free()
	m.localFreqs.Free()
	m.shared, m.frequencies, m.localFreqs = nil, tensor.Tensor{}, tensor.Tensor{}
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
func (m *Model) Copy(o Options, change func(s *tensor.Scope, l *Linear,
	w tensor.Tensor) tensor.Tensor) (*Model, error) {
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

// Save writes the model in Hugging Face form: model.safetensors with elements of type d, and config.json.
func (m *Model) Save(dir string, d safetensors.DType) error {
	return save(m, dir, d)
}
