package spago

import (
	"os"
	"strings"
	"testing"

	"popri/model/embedding"
	"popri/model/embedding/embeddingtest"
)

func TestGoldenEmbeddings(t *testing.T) {
	embeddingtest.Golden(t, func(dir string) (embedding.Encoder, error) { return Open(dir) })
}

func TestEncoder(t *testing.T) {
	for kind, folder := range embeddingtest.Folders {
		t.Run(kind, func(t *testing.T) {
			e, err := Open(folder(t))
			if err != nil {
				t.Fatal(err)
			}
			embeddingtest.Run(t, e, 0)
		})
	}
}

// BenchmarkEncode needs real weights to say anything: $POPRI_MINILM.
func BenchmarkEncode(b *testing.B) {
	dir := os.Getenv("POPRI_MINILM")
	if dir == "" {
		b.Skip("POPRI_MINILM names no folder")
	}
	e, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	var texts []string
	for i := range 60 {
		triple := embeddingtest.Triples[i%len(embeddingtest.Triples)]
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
