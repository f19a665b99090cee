package embedding_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/model/embedding/torch"
	"popri/model/safetensors"
	"popri/model/tensor"
)

func TestGoldenEmbeddingsInTorch(t *testing.T) {
	goldenEmbeddings(t, func(dir string) (embedding.Encoder, error) {
		e, err := torch.Open(dir, tensor.Float32)
		if err == nil {
			t.Cleanup(e.Free)
		}
		return e, err
	})
}

func TestTorchEncoder(t *testing.T) {
	for kind, folder := range folders {
		t.Run(kind, func(t *testing.T) {
			e, err := torch.Open(folder(t), tensor.Float32)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Free()
			conforms(t, e, 2e-6)
			if embedding.Key(e) == "" || e.Hash() == "" {
				t.Error("no key")
			}
		})
	}
}

// A text has the same vector, to the last bit, wherever it stands and whatever stands beside it.
func TestBatchesDoNotMatter(t *testing.T) {
	some := 150
	if !tensor.FastBFloat16() {
		some = 12
	}
	for kind, folder := range folders {
		dir := folder(t)
		t.Run(kind, func(t *testing.T) { batchesDoNotMatter(t, dir, tensor.Float32, 150) })
		t.Run(kind+"/bfloat16", func(t *testing.T) { batchesDoNotMatter(t, dir, tensor.BFloat16, some) })
	}
}

func batchesDoNotMatter(t *testing.T, dir string, d tensor.DType, n int) {
	words := strings.Fields("the reader returns how many bytes were read and a slice of fresh bread")
	var texts []string
	for i := range n {
		texts = append(texts, strings.Join(slices.Repeat(words, 4)[:1+i*i%47], " "))
	}
	e, err := torch.Open(dir, d)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Free()
	all, err := e.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 7, 50} {
		for from := 0; from < len(texts); from += n {
			some, err := e.Encode(texts[from:min(from+n, len(texts))])
			if err != nil {
				t.Fatal(err)
			}
			for i := range some.Rows {
				if !slices.Equal(some.Row(i), all.Row(from+i)) {
					t.Fatalf("text %d has another vector among %d texts than among %d", from+i, n, len(texts))
				}
			}
		}
	}
}

// bfloat16 blurs and does not turn.
func TestBFloat16(t *testing.T) {
	for kind, folder := range folders {
		t.Run(kind, func(t *testing.T) { blurs(t, folder(t)) })
	}
}

func blurs(t *testing.T, dir string) {
	t.Helper()
	var vectors []embedding.Matrix
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		e, err := torch.Open(dir, d)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Encode([]string{"the reader returns how many bytes were read", "fresh bread"})
		if err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, m)
		e.Free()
	}
	for i := range vectors[0].Rows {
		if c := dot(vectors[0].Row(i), vectors[1].Row(i)); !(c > 0.999) {
			t.Errorf("text %d: cosine %g", i, c)
		}
	}
}

// A folder that cannot be read leaves nothing behind.
func TestTorchOpenFails(t *testing.T) {
	live := tensor.Live()
	dir := bertFolder(t)
	if err := os.Truncate(filepath.Join(dir, safetensors.ModelFile), 5000); err != nil {
		t.Fatal(err)
	}
	if e, err := torch.Open(dir, tensor.Float32); err == nil {
		e.Free()
		t.Error("opened")
	}
	if now := tensor.Live(); now != live {
		t.Errorf("%d tensors were left behind", now-live)
	}
}

// BenchmarkTorchEncode needs real weights to say anything: $POPRI_MINILM.
func BenchmarkTorchEncode(b *testing.B) {
	dir := realWeights(b)
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		b.Run(d.String(), func(b *testing.B) {
			e, err := torch.Open(dir, d)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Free()
			benchmarkEncode(b, e, 500)
		})
	}
}

// realWeights is the folder that $POPRI_MINILM names; the benchmark is skipped without it.
func realWeights(b *testing.B) string {
	b.Helper()
	dir := os.Getenv("POPRI_MINILM")
	if dir == "" {
		b.Skip("POPRI_MINILM names no folder")
	}
	return dir
}

// benchmarkEncode times an encoder with n texts of different lengths.
func benchmarkEncode(b *testing.B, e embedding.Encoder, n int) {
	var texts []string
	for i := range n {
		triple := triples[i%len(triples)]
		texts = append(texts, strings.Repeat(triple[i/3%3]+". ", 1+i%6))
	}
	encoded := 0
	for b.Loop() {
		if _, err := e.Encode(texts); err != nil {
			b.Fatal(err)
		}
		encoded += n
	}
	b.ReportMetric(float64(encoded)/b.Elapsed().Seconds(), "texts/s")
}
