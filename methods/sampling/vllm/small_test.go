package vllm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"popri/internal/rng"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
)

const eos = 31

func smallModel(t *testing.T, seed uint64) *lm.Model {
	t.Helper()
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: 32, Context: 64, Hidden: 16, Layers: 2, Heads: 2, Inner: 32,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, EOS: []int32{eos}, ScaleAttn: true},
		lm.Options{Weights: tensor.Float32, Compute: tensor.Float32}, rand.New(rand.NewPCG(seed, 1)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	params, err := m.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range params { // fresh weights give all tokens nearly the same probability
		values := p.Host()
		for i := range values {
			values[i] *= 10
		}
		p.Store(values)
	}
	return m
}

// smallAdapter has an effect: its second matrices are not zero.
func smallAdapter(t *testing.T, m *lm.Model, seed uint64) *lora.Adapter {
	t.Helper()
	a, err := lora.New(m, lora.Config{Rank: 2, Alpha: 4}, rng.New(seed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	params, err := a.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 2))
	for _, p := range params {
		values := p.Host()
		for i := range values {
			values[i] = float32(0.3 * random.NormFloat64())
		}
		p.Store(values)
	}
	return a
}

// of makes a client of the server that does not wait long.
func of(f *Imitation) *Server {
	s := New(f.URL)
	s.client.Pause, s.client.Patience = time.Millisecond, 2*time.Second
	return s
}

func prompts(n int) (out [][]int32) {
	random := rand.New(rand.NewPCG(3, 3))
	for i := range n {
		p := []int32{eos}
		for range 5 + i%7 {
			p = append(p, int32(random.IntN(31)))
		}
		out = append(out, p)
	}
	return out
}

func has(err error, words ...string) bool {
	for _, word := range words {
		if err == nil || !strings.Contains(fmt.Sprint(err), word) {
			return false
		}
	}
	return true
}
