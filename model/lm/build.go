package lm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/model/tensor"
)

// Options say how a checkpoint is loaded.
type Options struct {
	Weights tensor.DType // type the weights are kept in; 0 means float32
	Compute tensor.DType // type of activations; 0 means the type of the weights
	// Sampling is for a model that will only [Model.Generate]: where [tensor.CanPack] says so, projections are kept as
	// products take them and in no other form.
	Sampling bool
	// Bytes, with Sampling, rounds projections to bytes with one scale for each output, and their inputs with one for
	// each token (W8A8); the head and attention are as without. It needs [tensor.CanPack8] and Compute bfloat16.
	Bytes bool
}

// New makes a model with random weights: normal with standard deviation 0.02, in the projections onto the residual
// stream divided by √(2·layers), norms at one and biases at zero, as GPT-2 was initialised.
func New(config Config, o Options, normal func() float64) (*Model, error) {
	return initial(config, o, func(s *tensor.Scope, std float64, shape []int64) tensor.Tensor {
		return drawMatrix(s, std, shape, normal)
	})
}

// drawMatrix makes a matrix of normal numbers of a standard deviation, row after row.
func drawMatrix(s *tensor.Scope, std float64, shape []int64, normal func() float64) tensor.Tensor {
	data := numeric.Tabulate(int(shape[0]*shape[1]), func(int) float32 { return float32(std * normal()) })
	return s.FromFloat32(data, shape...)
}

// Random is [New] with weights that libtorch draws where the model is: of billions of parameters in seconds, to measure
// speed with.
func Random(config Config, o Options, seed int64) (*Model, error) {
	return initial(config, o, func(s *tensor.Scope, std float64, shape []int64) tensor.Tensor {
		seed++
		return s.Normal(cmp.Or(o.Weights, tensor.Float32), std, seed, shape...)
	})
}

// initial makes a model with first weights, whose matrices are drawn with a standard deviation.
func initial(config Config, o Options,
	drawn func(s *tensor.Scope, std float64, shape []int64) tensor.Tensor) (*Model, error) {
	arch, ok := architectures[config.Type]
	if !ok {
		return nil, quote.Errorf("lm: model type %q is not supported", config.Type)
	}
	config = config.complete()
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
		std := initialStd
		for _, end := range arch.residual {
			if strings.HasSuffix(name, end+".weight") {
				std /= math.Sqrt(2 * float64(config.Layers))
			}
		}
		return drawn(s, std, shape), nil
	})
}

// initialStd is the standard deviation of GPT-2's and BERT's first weights.
const initialStd = 0.02

// headName is the output projection's name in every model; files may have another one.
const headName = "lm_head.weight"

// A source gives the tensor of a name and shape. The caller copies it before the scope ends.
type source func(s *tensor.Scope, name string, shape []int64) (tensor.Tensor, error)

// builder puts a model together.
type builder struct {
	m    *Model
	s    *tensor.Scope
	o    Options
	get  source
	errs []error

	Config
	hidden int64 // width of the residual stream
	offset bool  // of the RMS norms
}

func assemble(config Config, o Options, get source) (*Model, error) {
	o.Weights = cmp.Or(o.Weights, tensor.Float32)
	o.Compute = cmp.Or(o.Compute, o.Weights)
	m := &Model{Config: config, Compute: o.Compute,
		weights: weights{params: map[string]tensor.Tensor{}, linears: map[string]*Linear{}}}
	err := tensor.Run(func(s *tensor.Scope) error {
		b := &builder{m: m, s: s, o: o, get: get, Config: config, hidden: int64(config.Hidden)}
		architectures[config.Type].build(b)
		m.head.weight = m.embedding.tokens
		switch {
		case config.Classifies():
			b.takeClassifier()
		case !config.TiedHead:
			m.head.weight = b.take(headName, int64(config.Vocab), m.embedding.tokens.Size(1))
		}
		m.rotary = newFrequencies(s, config)
		return errors.Join(b.errs...)
	})
	if err != nil {
		m.Free()
		return nil, err
	}
	for _, p := range m.projections() {
		for _, l := range p.parts {
			m.linears[l.Name] = l
		}
	}
	if o.Sampling {
		if err := m.packOnly(o.Bytes); err != nil {
			m.Free()
			return nil, err
		}
	}
	return m, nil
}

// Errors about a checkpoint's tensors that are reported together; further ones are mostly repetitions.
const mostErrors = 5

// fill copies the tensor of that name into dst.
func (b *builder) fill(dst tensor.Tensor, name string) {
	if len(b.errs) == mostErrors {
		return
	}
	b.s.Do(func() {
		src, err := b.get(b.s, name, dst.Shape())
		if err != nil {
			b.errs = append(b.errs, err)
			return
		}
		b.s.Copy_(dst, src)
	})
}

func (b *builder) take(name string, shape ...int64) tensor.Tensor {
	t := b.s.Keep(b.s.Empty(b.o.Weights, shape...))
	b.m.params[name] = t
	b.fill(t, name)
	return t
}

func (b *builder) layerNorm(name string) norm {
	b.take(name+".weight", b.hidden)
	b.take(name+".bias", b.hidden)
	return layerNorm{of: &b.m.weights, weight: name + ".weight", bias: name + ".bias", eps: b.NormEps}
}

func (b *builder) rmsNorm(name string, width int64) norm {
	b.take(name+".weight", width)
	return rmsNorm{of: &b.m.weights, weight: name + ".weight", eps: b.NormEps, offset: b.offset}
}

// layers makes the blocks, whose names begin with prefix and their number.
func (b *builder) layers(prefix string, f func(i int, p string) block) {
	for i := range b.Layers {
		b.m.blocks = append(b.m.blocks, f(i, fmt.Sprintf("%s%d.", prefix, i)))
	}
}

// conv1D is a projection with a bias, stored [in, out].
func (b *builder) conv1D(name string, in, out int64) projection {
	return single(&Linear{Name: name, In: in, Out: out, matrix: matrix{weight: b.take(name+".weight", in, out),
		bias: b.take(name+".bias", out), InOut: true}})
}

// linear is a projection stored [out, in].
func (b *builder) linear(name string, in, out int64, bias bool) projection {
	l := &Linear{Name: name, In: in, Out: out, matrix: matrix{weight: b.take(name+".weight", out, in)}}
	if bias {
		l.bias = b.take(name+".bias", out)
	}
	return single(l)
}

// part names one projection of a joined one.
type part struct {
	name string
	out  int64
}

// join puts projections of one input side by side.
func (b *builder) join(in int64, bias bool, parts ...part) projection {
	total := numeric.Sum(parts, func(p part) int64 { return p.out })
	allocate := func(shape ...int64) tensor.Tensor {
		t := b.s.Keep(b.s.Empty(b.o.Weights, shape...))
		b.m.joined = append(b.m.joined, t)
		return t
	}
	view := func(of tensor.Tensor, name string, from, n int64) tensor.Tensor {
		t := b.s.Keep(b.s.Narrow(of, 0, from, n))
		b.m.params[name] = t
		b.fill(t, name)
		return t
	}
	j := projection{matrix: &matrix{weight: allocate(total, in)}}
	if bias {
		j.bias = allocate(total)
	}
	from := int64(0)
	for _, p := range parts {
		l := &Linear{Name: p.name, In: in, Out: p.out, matrix: matrix{weight: view(j.weight, p.name+".weight", from, p.out)}}
		if bias {
			l.bias = view(j.bias, p.name+".bias", from, p.out)
		}
		j.parts = append(j.parts, l)
		from += p.out
	}
	return j
}
