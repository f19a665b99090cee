package lm

import (
	"math/rand/v2"
	"testing"

	_ "popri/internal/process" // as in the command
	"popri/model/tensor"
)

// benchmarkModel is a model of the embedded generator's size with random weights.
func benchmarkModel(b *testing.B, d tensor.DType) *Model {
	random := rand.New(rand.NewPCG(1, 1))
	m, err := New(Config{Type: "gpt2", Vocab: 4096, Context: 256, Hidden: 256, Layers: 6, Heads: 4, Inner: 1024,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true},
		Options{Weights: d, Compute: d}, random.NormFloat64)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Free)
	return m
}

func benchmarkGenerate(b *testing.B, d tensor.DType) {
	m := benchmarkModel(b, d)
	prompts := make([][]int32, 48)
	for i := range prompts {
		for range 80 + i%20 {
			prompts[i] = append(prompts[i], int32((i*31+len(prompts[i])*7)%4096))
		}
	}
	tokens := 0
	for b.Loop() {
		out, err := m.Generate(b.Context(), prompts, 10, SampleOptions{Temperature: 1, MaxNewTokens: 40, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range out {
			for _, s := range p {
				tokens += len(s.IDs)
			}
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkGenerateFloat32(b *testing.B)  { benchmarkGenerate(b, tensor.Float32) }
func BenchmarkGenerateBFloat16(b *testing.B) { benchmarkGenerate(b, tensor.BFloat16) }

// Prompts read and one token drawn after each.
func benchmarkPrefill(b *testing.B, d tensor.DType) {
	m := benchmarkModel(b, d)
	prompts, tokens := make([][]int32, 64), 0
	for i := range prompts {
		for range 200 + i%40 {
			prompts[i] = append(prompts[i], int32((i*31+len(prompts[i])*7)%4096))
		}
		tokens += len(prompts[i])
	}
	for b.Loop() {
		if _, err := m.Generate(b.Context(), prompts, 1, SampleOptions{Temperature: 1, MaxNewTokens: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkPrefillFloat32(b *testing.B)  { benchmarkPrefill(b, tensor.Float32) }
func BenchmarkPrefillBFloat16(b *testing.B) { benchmarkPrefill(b, tensor.BFloat16) }
