package embedding_test

import (
	"testing"

	"popri/model/embedding"
	"popri/model/embedding/spago"
)

func TestGoldenEmbeddingsInSpago(t *testing.T) {
	goldenEmbeddings(t, func(dir string) (embedding.Encoder, error) { return spago.Open(dir) })
}

func TestSpagoEncoder(t *testing.T) {
	for kind, folder := range folders {
		t.Run(kind, func(t *testing.T) {
			e, err := spago.Open(folder(t))
			if err != nil {
				t.Fatal(err)
			}
			conforms(t, e, 0)
		})
	}
}

// BenchmarkSpagoEncode needs real weights to say anything: $POPRI_MINILM.
func BenchmarkSpagoEncode(b *testing.B) {
	e, err := spago.Open(realWeights(b))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkEncode(b, e, 60)
}
