package embedding_test

import (
	"os"
	"strings"
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
	dir := os.Getenv("POPRI_MINILM")
	if dir == "" {
		b.Skip("POPRI_MINILM names no folder")
	}
	e, err := spago.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	var texts []string
	for i := range 60 {
		triple := triples[i%len(triples)]
		texts = append(texts, strings.Repeat(triple[i/3%3]+". ", 1+i%6))
	}
	n := 0
	for b.Loop() {
		if _, err := e.Encode(texts); err != nil {
			b.Fatal(err)
		}
		n += len(texts)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "texts/s")
}
