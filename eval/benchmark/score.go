package benchmark

import (
	"math/rand/v2"
	"time"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

const (
	scoreDim   = 384  // the length of MiniLM's vectors
	scoreBatch = 8192 // clients whose texts are in memory at once: 75 MB
)

// Score times how clients that hold 1 to 11 texts each answer the question of that name ([scoring.Ask]) about the
// samples: from the embeddings of samples and texts, random unit vectors, to the sum of the clients' bounded vectors.
// Making the vectors is not timed. The clients come in batches, of which one is in memory; a run keeps the means of all
// its clients, 8 bytes a number.
func Score(name string, samples, population int) (*Result, error) {
	if samples < 1 || population < 1 {
		return nil, fault.Userf("%d samples, %d clients: want at least 1", samples, population)
	}
	random := rng.New(1, "benchmark")
	vectors := unit(random, samples)
	var spent time.Duration
	r, err := measure("score", "float64", "clients", false, func() (int, error) {
		begun := time.Now()
		q, err := askable(name, vectors)
		spent += time.Since(begun)
		for done, n := 0, 0; done < population && err == nil; done += n {
			n = min(scoreBatch, population-done)
			offsets := make([]int, n+1)
			for i := range offsets[1:] {
				offsets[i+1] = offsets[i] + 1 + random.IntN(11)
			}
			texts := unit(random, offsets[n])
			begun := time.Now()
			means, failed := query.MeanEmbeddings(texts, offsets)
			if err = failed; err == nil {
				_, err = q.Sum(query.Clients{Means: means})
			}
			spent += time.Since(begun)
		}
		return population, err
	})
	if err != nil {
		return nil, err
	}
	r.Seconds = spent.Seconds()
	r.Rate = float64(population) / r.Seconds
	return r, nil
}

// unit makes random vectors of length 1.
func unit(random *rand.Rand, n int) embedding.Matrix {
	m := embedding.NewMatrix(n, scoreDim)
	for i := range m.Data {
		m.Data[i] = float32(random.NormFloat64())
	}
	return scoring.Unit(m)
}

// askable is the question of that name, which clients answer by their mean embedding.
func askable(name string, samples embedding.Matrix) (query.Query, error) {
	q, err := scoring.Ask(name, 1, samples, "made-up samples")
	if err != nil {
		return nil, fault.User(err)
	}
	if q.NeedsTexts() {
		return nil, fault.Userf("%q needs the clients' texts, and made-up clients have means alone", name)
	}
	return q, nil
}
