package lora

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"

	"popri/internal/numeric"
	"popri/model/lm"
	"popri/model/tensor"
)

// Config says which projections are adapted and how.
type Config struct {
	Rank    int
	Alpha   float64
	RSLoRA  bool     // scale by alpha/√r instead of alpha/r
	DoRA    bool     // each output's weights have a length of their own (use_dora); such adapters are read and merged only
	Targets []string // module names, or their ends after a dot; empty means every projection of the model
	// Base is the folder or the name of the model, from which PEFT's AutoPeftModel takes it (base_model_name_or_path);
	// "" leaves it to the reader.
	Base string
	// RankPattern and AlphaPattern give single projections another rank or alpha.
	RankPattern, AlphaPattern Patterns

	ranks, alphas []compiled
	targets       *regexp.Regexp // set if target_modules is a string, which must match the whole name
}

// Pair is the adapter of one projection.
type Pair struct {
	A, B   tensor.Tensor // float32 [r, in], [out, r]
	M      tensor.Tensor // the lengths of DoRA, float32 [out]; none without
	Rank   int
	Alpha  float64
	Scale  float64
	linear *lm.Linear
}

// Adapter implements [lm.Adapter]. Free releases it.
type Adapter struct {
	Config  Config
	Modules map[string]*Pair
}

// New attaches a fresh adapter to the projections of m that the configuration names.
func New(m *lm.Model, c Config, random *rand.Rand) (*Adapter, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	if c.DoRA {
		return nil, errors.New("lora: adapters of DoRA are not trained here")
	}
	names, err := c.match(m)
	if err != nil {
		return nil, err
	}
	a := &Adapter{Config: c, Modules: map[string]*Pair{}}
	err = tensor.Run(func(s *tensor.Scope) error {
		for _, name := range names {
			l := m.Linears()[name]
			p := c.pair(name, l)
			// Kaiming-uniform with a = √5 is uniform on ±1/√in, as in PEFT.
			bound := 1 / math.Sqrt(float64(l.In))
			draw := func(int) float32 { return float32(bound * (2*random.Float64() - 1)) }
			data := numeric.Tabulate(p.Rank*int(l.In), draw)
			p.A = s.Keep(s.FromFloat32(data, int64(p.Rank), l.In))
			p.B = s.Keep(s.Zeros(tensor.Float32, l.Out, int64(p.Rank)))
			a.Modules[name] = p
		}
		return nil
	})
	if err != nil {
		a.Free()
		return nil, err
	}
	return a, nil
}

func (c Config) pair(name string, l *lm.Linear) *Pair {
	p := &Pair{Rank: int(lookup(c.ranks, name, float64(c.Rank))), Alpha: lookup(c.alphas, name, c.Alpha), linear: l}
	p.Scale = p.Alpha / float64(p.Rank)
	if c.RSLoRA {
		p.Scale = p.Alpha / math.Sqrt(float64(p.Rank))
	}
	return p
}

// Names returns the adapted modules, sorted.
func (a *Adapter) Names() []string { return slices.Sorted(maps.Keys(a.Modules)) }

// Apply adds s·B·(A·x) to y. The product runs in x's type. An adapter of DoRA must be merged instead.
func (a *Adapter) Apply(s *tensor.Scope, module string, x, y tensor.Tensor) tensor.Tensor {
	p := a.Modules[module]
	if p == nil {
		return y
	}
	if p.M.Defined() {
		panic(&tensor.Error{Op: "Apply", Text: "an adapter of DoRA, which must be merged into the model"})
	}
	low := s.Linear(x, s.To(p.A, x.DType()), tensor.Tensor{})
	return s.Add(y, s.Linear(low, s.To(s.MulScalar(p.B, p.Scale), x.DType()), tensor.Tensor{}))
}

// Factors returns the matrices of the adapters of parts, whose outputs are side by side: what is added is s·B·(A·x) of
// each part. ok is false of DoRA.
func (a *Adapter) Factors(s *tensor.Scope, parts []*lm.Linear) (l tensor.LowRank, ok bool) {
	var factors []tensor.Factors
	offset := int64(0)
	for _, part := range parts {
		if p := a.Modules[part.Name]; p != nil {
			if p.M.Defined() {
				return tensor.LowRank{}, false
			}
			factors = append(factors, tensor.Factors{A: p.A, B: p.B, Scale: p.Scale, Offset: offset})
		}
		offset += part.Out
	}
	return s.LowRank(factors), true
}

// Trainable marks what the adapter has as parameters and returns it: A and B of each module, sorted by module.
func (a *Adapter) Trainable() ([]tensor.Tensor, error) {
	var params []tensor.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range a.Names() {
			p := a.Modules[name]
			for _, x := range p.tensors() {
				s.RequireGrad(x, true)
				params = append(params, x)
			}
		}
		return nil
	})
	return params, err
}

// Read sets the matrices to the values of an adapter of m's shape, in PEFT's format. They stay the same tensors,
// because an optimizer may hold them.
func (a *Adapter) Read(dir string, m *lm.Model) error {
	stored, err := Load(dir, m)
	if err != nil {
		return err
	}
	defer stored.Free()
	from, err := stored.Trainable()
	if err != nil {
		return err
	}
	to, err := a.Trainable()
	if err != nil {
		return err
	}
	if !slices.Equal(a.Names(), stored.Names()) {
		return fmt.Errorf("lora: %s adapts %d projections, not the %d of the adapter that it replaces, or others", dir,
			len(stored.Modules), len(a.Modules))
	}
	for name, p := range a.Modules {
		q := stored.Modules[name]
		if p.Rank != q.Rank || p.Scale != q.Scale {
			return fmt.Errorf("lora: %s: %s has rank %d and scale %g, the adapter that it replaces %d and %g", dir,
				name, q.Rank, q.Scale, p.Rank, p.Scale)
		}
	}
	for i := range to {
		to[i].Store(from[i].Host())
	}
	return nil
}

// tensors are the tensors of a projection.
func (p *Pair) tensors() []tensor.Tensor {
	if p.M.Defined() {
		return []tensor.Tensor{p.A, p.B, p.M}
	}
	return []tensor.Tensor{p.A, p.B}
}

// Merge returns a copy of m whose weights are W + s·B·A, or DoRA's, for sampling at the speed of the plain model.
func (a *Adapter) Merge(m *lm.Model, o lm.Options) (*lm.Model, error) { return m.Copy(o, a.merged) }

// MergeInPlace makes the weights of m W + s·B·A, without a copy of the model. They are rounded to their type, as in
// [Adapter.Merge]. undo makes them what they were: from copies on the GPU, where these and all else leave half of it
// free, or from the folder that m was loaded from, which is read again. Until it has, nothing else may use m's weights.
// If it fails, m is unusable.
func (a *Adapter) MergeInPlace(m *lm.Model) (undo func() error, err error) {
	bytes := int64(0)
	for _, name := range a.Names() {
		w := m.Linears()[name].Weight()
		bytes += w.NumElements() * int64(w.DType().Size())
	}
	return a.mergeInPlace(m, tensor.GPUUsed()+bytes < tensor.GPUMemory()/2)
}

func (a *Adapter) mergeInPlace(m *lm.Model, copied bool) (undo func() error, err error) {
	if !copied {
		names := numeric.Map(a.Names(), func(name string) string { return name + ".weight" })
		return func() error { return m.Reload(names...) }, a.MergeInto(m)
	}
	before := map[string]tensor.Tensor{}
	err = tensor.Run(func(s *tensor.Scope) error {
		for _, name := range a.Names() {
			w := m.Linears()[name].Weight()
			before[name] = s.Keep(s.Empty(w.DType(), w.Shape()...))
			s.Copy_(before[name], w)
		}
		return nil
	})
	undo = func() error {
		m.Unpack()
		return tensor.Run(func(s *tensor.Scope) error {
			for name, w := range before {
				s.Own(w)
				s.Copy_(m.Linears()[name].Weight(), w)
			}
			return nil
		})
	}
	if err == nil {
		err = a.MergeInto(m)
	}
	return undo, err
}

// MergeInto is [Adapter.MergeInPlace] for good.
func (a *Adapter) MergeInto(m *lm.Model) error {
	m.Unpack()
	return tensor.Run(func(s *tensor.Scope) error {
		for _, name := range a.Names() {
			s.Do(func() {
				l := m.Linears()[name]
				s.Copy_(l.Weight(), a.merged(s, l, s.To(l.Weight(), tensor.Float32)))
			})
		}
		return nil
	})
}

// merged is the float32 weight w of l with the adapter's change, or the zero Tensor if it changes nothing.
func (a *Adapter) merged(s *tensor.Scope, l *lm.Linear, w tensor.Tensor) tensor.Tensor {
	p := a.Modules[l.Name]
	if p == nil {
		return tensor.Tensor{}
	}
	if p.M.Defined() {
		return p.scaledWeight(s, w)
	}
	return p.changed(s, w)
}

// changed is w + s·B·A, laid out as w.
func (p *Pair) changed(s *tensor.Scope, w tensor.Tensor) tensor.Tensor {
	delta := s.MulScalar(s.MatMul(p.B, p.A), p.Scale) // [out, in]
	if p.linear.InOut {
		delta = s.Transpose(delta, 0, 1)
	}
	return s.Add(w, delta)
}

// Free releases the matrices.
func (a *Adapter) Free() {
	for _, p := range a.Modules {
		for _, x := range p.tensors() {
			x.Free()
		}
	}
	a.Modules = nil
}
