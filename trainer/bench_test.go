package trainer

import (
	"math/rand/v2"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
)

// Updates of a model of the embedded generator's size on rows of 128 tokens.
func benchmarkTrain(b *testing.B, d tensor.DType) {
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: 4096, Context: 256, Hidden: 256, Layers: 4, Heads: 4, Inner: 1024,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true},
		lm.Options{Weights: tensor.Float32, Compute: d}, rand.New(rand.NewPCG(1, 2)).NormFloat64)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Free()
	params, err := m.Trainable()
	if err != nil {
		b.Fatal(err)
	}
	o := NewOptimizer(params, AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1})
	defer o.Free()
	loss := NextToken{Model: m, Optimizer: o, Parts: InParts(2)}
	rows := make([]lm.Row, 16)
	for i := range rows {
		for range 128 {
			rows[i].Tokens = append(rows[i].Tokens, int32((i*31+len(rows[i].Tokens)*7)%4096))
		}
	}
	for b.Loop() {
		if _, _, err := loss.Step(rows, 1e-4); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(16*128*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkTrainFloat32(b *testing.B)  { benchmarkTrain(b, tensor.Float32) }
func BenchmarkTrainBFloat16(b *testing.B) { benchmarkTrain(b, tensor.BFloat16) }
