package lm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"popri/safetensors"
	"popri/tensor"
)

// An Adapter changes the output of named projections, as LoRA does. A nil Adapter is the plain model.
type Adapter interface {
	// Apply returns y changed for the projection named module, whose input was x [B, T, in] and output y [B, T, out].
	Apply(s *tensor.Scope, module string, x, y tensor.Tensor) tensor.Tensor
}

// Model is a decoder with its weights. It is safe for concurrent forward passes as long as nobody updates its weights.
// Free releases it.
type Model struct {
	Config Config
	// Compute is the type that activations and products have. Weights of another type are converted as they are used,
	// so float32 weights with Compute bfloat16 are trained in mixed precision.
	Compute tensor.DType

	params   map[string]tensor.Tensor
	linears  map[string]*Linear
	tok, pos tensor.Tensor // [V, H], [context, H]
	head     tensor.Tensor // [V, H]
	norm     norm
	blocks   []block
}

type block struct {
	attnNorm, mlpNorm norm
	attn              attention
	mlp               mlp
}

type norm interface {
	apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor
}

type attention interface {
	// project returns query, key and value, each [B, N, T, D].
	project(s *tensor.Scope, x tensor.Tensor, heads int, adapter Adapter) (q, k, v tensor.Tensor)
	// fused returns query, key and value side by side, [B, T, 3H].
	fused(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	// output maps the heads' outputs [B, T, H] back to the residual stream.
	output(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	linears() []*Linear
}

type mlp interface {
	apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor
	linears() []*Linear
}

// Linear is one projection of the model that adapters can name.
type Linear struct {
	Name    string // as in the checkpoint, without ".weight"
	In, Out int64
	InOut   bool // the weight is stored [in, out] (GPT-2), not [out, in]
	weight  string
	m       *Model
	bias    string
}

// Weight returns the projection's weight as stored.
func (l *Linear) Weight() tensor.Tensor { return l.m.params[l.weight] }

func (l *Linear) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	w := s.To(l.m.params[l.weight], x.DType())
	var y tensor.Tensor
	switch {
	case l.InOut && l.bias != "":
		shape := x.Shape()
		rows := s.Reshape(x, -1, l.In)
		y = s.AddMM(s.To(l.m.params[l.bias], x.DType()), rows, w)
		y = s.View(y, append(shape[:len(shape)-1], l.Out)...)
	case l.InOut:
		y = s.MatMul(x, w)
	case l.bias != "":
		y = s.Linear(x, w, s.To(l.m.params[l.bias], x.DType()))
	default:
		y = s.Linear(x, w, tensor.Tensor{})
	}
	if adapter != nil {
		y = adapter.Apply(s, l.Name, x, y)
	}
	return y
}

type layerNorm struct {
	m            *Model
	weight, bias string
	eps          float64
}

func (n layerNorm) apply(s *tensor.Scope, x tensor.Tensor) tensor.Tensor {
	return s.LayerNorm(x, s.To(n.m.params[n.weight], x.DType()), s.To(n.m.params[n.bias], x.DType()), n.eps)
}

type architecture struct {
	config func(raw []byte) (Config, error)
	build  func(m *Model, b *builder)
	rename func(name string) string
}

var architectures = map[string]architecture{}

// Options say how a checkpoint is loaded.
type Options struct {
	Weights tensor.DType // type the weights are kept in; 0 means float32
	Compute tensor.DType // type of activations; 0 means that of the weights
}

// Load reads a model from a Hugging Face directory: config.json and safetensors, single or sharded. Every tensor that
// the architecture needs must be there with the shape that config.json says, finite, and none may be left over.
func Load(dir string, o Options) (*Model, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	files, err := safetensors.OpenModel(dir)
	if err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	defer files.Close()
	stored := map[string]safetensors.Tensor{}
	for _, name := range files.Names() {
		t, _ := files.Tensor(name)
		if as := architectures[config.Type].rename(name); as != "" {
			stored[as] = t
		}
	}
	m, err := assemble(config, o, func(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, error) {
		t, ok := stored[name]
		if !ok {
			return tensor.Tensor{}, fmt.Errorf("lm: %s: tensor %s is missing", dir, name)
		}
		if !slices.Equal(t.Shape, shape) {
			return tensor.Tensor{}, fmt.Errorf("lm: %s: tensor %s has shape %v, config.json makes it %v", dir, name, t.Shape, shape)
		}
		if err := t.CheckFinite(); err != nil {
			return tensor.Tensor{}, fmt.Errorf("lm: %s: %w", dir, err)
		}
		delete(stored, name)
		return fromStored(s, t)
	}, func(name string) { delete(stored, name) })
	if err != nil {
		return nil, err
	}
	if len(stored) > 0 {
		var names []string
		for name := range stored {
			names = append(names, name)
		}
		slices.Sort(names)
		m.Free()
		return nil, fmt.Errorf("lm: %s: the checkpoint holds tensors that a %s model does not have: %s", dir, config.Type, strings.Join(names[:min(5, len(names))], ", "))
	}
	return m, nil
}

func fromStored(s *tensor.Scope, t safetensors.Tensor) (tensor.Tensor, error) {
	types := map[safetensors.DType]tensor.DType{safetensors.F32: tensor.Float32, safetensors.F16: tensor.Float16, safetensors.BF16: tensor.BFloat16, safetensors.F64: tensor.Float64}
	d, ok := types[t.DType]
	if !ok {
		return tensor.Tensor{}, fmt.Errorf("tensor %s has the type %s, weights are floating point", t.Name, t.DType)
	}
	return s.FromBytes(d, t.Data, t.Shape...), nil
}

// New makes a model with random weights: normal with standard deviation 0.02, that of the projections onto the residual
// stream divided by √(2·layers), norms at one and biases at zero, as GPT-2 was initialised.
func New(config Config, o Options, normal func() float64) (*Model, error) {
	if _, ok := architectures[config.Type]; !ok {
		return nil, fmt.Errorf("lm: model type %q is not supported", config.Type)
	}
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("lm: %w", err)
	}
	return assemble(config, o, func(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, error) {
		if len(shape) == 1 {
			if strings.HasSuffix(name, ".bias") {
				return s.Zeros(tensor.Float32, shape...), nil
			}
			return s.Full(tensor.Float32, 1, shape...), nil
		}
		std := 0.02
		if strings.HasSuffix(name, "c_proj.weight") {
			std /= math.Sqrt(2 * float64(config.Layers))
		}
		data := make([]float32, shape[0]*shape[1])
		for i := range data {
			data[i] = float32(std * normal())
		}
		return s.FromFloat32(data, shape...), nil
	}, func(string) {})
}

// builder hands tensors to the parts of a model while it is put together.
type builder struct {
	m    *Model
	s    *tensor.Scope
	o    Options
	get  func(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, error)
	drop func(name string)
	errs []error
}

func assemble(config Config, o Options, get func(*tensor.Scope, string, []int64) (tensor.Tensor, error), drop func(string)) (*Model, error) {
	if o.Weights == 0 {
		o.Weights = tensor.Float32
	}
	if o.Compute == 0 {
		o.Compute = o.Weights
	}
	m := &Model{Config: config, Compute: o.Compute, params: map[string]tensor.Tensor{}, linears: map[string]*Linear{}}
	err := tensor.Run(func(s *tensor.Scope) error {
		b := &builder{m: m, s: s, o: o, get: get, drop: drop}
		architectures[config.Type].build(m, b)
		return errors.Join(b.errs...)
	})
	if err != nil {
		m.Free()
		return nil, err
	}
	for _, b := range m.blocks {
		for _, l := range append(b.attn.linears(), b.mlp.linears()...) {
			m.linears[l.Name] = l
		}
	}
	return m, nil
}

func (b *builder) take(name string, shape ...int64) tensor.Tensor {
	t, err := b.get(b.s, name, shape)
	if err != nil {
		b.errs = append(b.errs, err)
		return tensor.Tensor{}
	}
	t = b.s.Keep(b.s.To(t, b.o.Weights))
	b.m.params[name] = t
	return t
}

func (b *builder) layerNorm(name string, h int64) norm {
	b.take(name+".weight", h)
	b.take(name+".bias", h)
	return layerNorm{m: b.m, weight: name + ".weight", bias: name + ".bias", eps: b.m.Config.NormEps}
}

func (b *builder) conv1D(name string, in, out int64) *Linear {
	b.take(name+".weight", in, out)
	b.take(name+".bias", out)
	return &Linear{Name: name, In: in, Out: out, InOut: true, weight: name + ".weight", bias: name + ".bias", m: b.m}
}

// Free releases the weights.
func (m *Model) Free() {
	for name, t := range m.params {
		t.Free()
		delete(m.params, name)
	}
}

// Names returns the names of all parameters, sorted. A tied head counts once.
func (m *Model) Names() []string {
	names := make([]string, 0, len(m.params))
	for name := range m.params {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Param returns a parameter by name.
func (m *Model) Param(name string) tensor.Tensor { return m.params[name] }

// Parameters returns the number of weights.
func (m *Model) Parameters() int64 {
	n := int64(0)
	for _, t := range m.params {
		n += t.NumElements()
	}
	return n
}

// Linears returns the projections by name.
func (m *Model) Linears() map[string]*Linear { return m.linears }

// Copy returns a model of its own with the same weights as type o.Weights. change, where not nil, is called with every
// projection's name and float32 weight and returns the weight to take instead, or the zero Tensor for the same.
func (m *Model) Copy(o Options, change func(s *tensor.Scope, l *Linear, w tensor.Tensor) tensor.Tensor) (*Model, error) {
	byWeight := map[string]*Linear{}
	for _, l := range m.linears {
		byWeight[l.weight] = l
	}
	return assemble(m.Config, o, func(s *tensor.Scope, name string, _ []int64) (tensor.Tensor, error) {
		w := m.params[name]
		if l := byWeight[name]; l != nil && change != nil {
			if changed := change(s, l, s.To(w, tensor.Float32)); changed.Defined() {
				return changed, nil
			}
		}
		return s.Clone(w), nil
	}, func(string) {})
}

// Save writes the model in Hugging Face form: model.safetensors with elements of type d, and config.json.
func (m *Model) Save(dir string, d safetensors.DType) error {
	return save(m, dir, d)
}
