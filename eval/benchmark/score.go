package benchmark

import (
	"fmt"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// scoreDim is the length of MiniLM's vectors.
const scoreDim = 384

// Score times how clients that hold 1 to 11 texts each score the samples: from the embeddings of samples and texts,
// random unit vectors, to the sum of the clients' standardised and clipped vectors.
func Score(samples, population int) (*Result, error) {
	if samples < 1 || population < 1 {
		return nil, fault.User(fmt.Errorf("%d samples, %d clients: want at least 1", samples, population))
	}
	random := rng.New(1, "benchmark")
	unit := func(n int) embedding.Matrix {
		m := embedding.NewMatrix(n, scoreDim)
		for i := range m.Data {
			m.Data[i] = float32(random.NormFloat64())
		}
		return scoring.Unit(m)
	}
	vectors := unit(samples)
	offsets := make([]int, population+1)
	for i := range population {
		offsets[i+1] = offsets[i] + 1 + random.IntN(11)
	}
	texts := unit(offsets[population])
	return measure("score", "float64", "clients", func() (int, error) {
		means, err := query.MeanEmbeddings(texts, offsets)
		if err != nil {
			return 0, err
		}
		s, err := scoring.Prepare(vectors, scoring.Options{Normalize: scoring.Standardized, Clip: 1})
		if err != nil {
			return 0, err
		}
		_, err = s.Sum(means)
		return population, err
	})
}
