package lora

import (
	"slices"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
)

// A vector that is set is the vector that is read, of all weights and of an adapter's matrices B.
func TestPart(t *testing.T) {
	models, _ := kinds()
	for _, name := range []string{"gpt2", "llama"} {
		m, err := lm.Random(models[name], lm.Options{}, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		whole, err := Whole(m)
		if err != nil {
			t.Fatal(err)
		}
		if int64(whole.Len()) != m.Parameters() || whole.Passes() != nil {
			t.Errorf("%s: %d values of %d weights", name, whole.Len(), m.Parameters())
		}
		ups, err := Ups(m, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		values := 2 * 2 * m.Config.Layers * m.Config.Hidden // of rank 2, two projections a block onto the residual stream
		if flat := ups.Flat(); len(flat) != values || slices.ContainsFunc(flat, func(v float32) bool { return v != 0 }) {
			t.Errorf("%s: a fresh vector of %d values, want %d zeros", name, len(flat), values)
		}
		another, err := ups.Another()
		if err != nil {
			t.Fatal(err)
		}
		for module, p := range ups.Adapter.Modules {
			if !slices.Equal(p.A.Host(), another.Adapter.Modules[module].A.Host()) {
				t.Errorf("%s: another part draws other matrices A", name)
			}
		}
		for _, p := range []*Part{whole, ups} {
			changed := p.Flat()
			for i := range changed {
				changed[i] += float32(i%7) / 64
			}
			if err := p.Set(changed); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.Flat(), changed) {
				t.Errorf("%s: a vector is not what it was set to", name)
			}
			if err := p.Set(changed[1:]); err == nil {
				t.Errorf("%s: a vector that is too short is taken", name)
			}
			params, err := p.Trainable()
			if err != nil || len(params) == 0 {
				t.Fatal(params, err)
			}
		}
		another.Free()
		if m.Parameters() == 0 {
			t.Errorf("%s: another part's end frees the model", name)
		}
	}
}

// The change of the weights is linear in the vector, so that a sum of clients' vectors is the sum of their changes.
func TestPartIsLinear(t *testing.T) {
	models, _ := kinds()
	m, err := lm.Random(models["llama"], lm.Options{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	p, err := Ups(m, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	name := p.Adapter.Names()[0]
	weight := func(flat []float32) (w []float32) {
		if err := p.Set(flat); err != nil {
			t.Fatal(err)
		}
		if err := tensor.Run(func(s *tensor.Scope) error {
			l := m.Linears()[name]
			w = s.Float32s(p.Adapter.merged(s, l, s.Zeros(tensor.Float32, l.Weight().Shape()...)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	a, b, sum := p.Flat(), p.Flat(), p.Flat()
	for i := range a {
		a[i], b[i] = float32(i%5), float32(i%3)-1
		sum[i] = a[i] + b[i]
	}
	wa, wb, ws := weight(a), weight(b), weight(sum)
	for i := range ws {
		if d := ws[i] - wa[i] - wb[i]; d > 1e-4 || d < -1e-4 {
			t.Fatalf("weight %d of the sum is %g, the changes are %g and %g", i, ws[i], wa[i], wb[i])
		}
	}
	if slices.Max(ws) == 0 {
		t.Error("the vector changes nothing")
	}
}
