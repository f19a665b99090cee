package benchmark

import (
	"fmt"
	"time"

	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// scoreDim is the length of MiniLM's vectors.
const scoreDim = 384

// ScoreClients is the number of clients that [Score] makes and scores at a time. It bounds the memory: a client's texts
// take 21 KB on average.
const ScoreClients = 4096

// Score times how clients that hold 1 to 11 texts each answer the question of that name ([scoring.Ask]) about the
// samples: from the embeddings of samples and texts, random unit vectors, to the sum of the clients' bounded vectors.
// Making the vectors is not timed.
func Score(name string, samples, population int) (*Result, error) {
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
	var spent time.Duration
	r, err := measure("score", "float64", "clients", false, func() (int, error) {
		begun := time.Now()
		q, err := askable(name, vectors)
		var sum query.Partial
		spent += time.Since(begun)
		for done := 0; done < population && err == nil; done += ScoreClients {
			offsets := make([]int, min(ScoreClients, population-done)+1)
			for i := range offsets[1:] {
				offsets[i+1] = offsets[i] + 1 + random.IntN(11)
			}
			texts := unit(offsets[len(offsets)-1])
			begun := time.Now()
			var part query.Partial
			if part, err = partial(q, texts, offsets); done == 0 {
				sum = part
			} else if err == nil {
				err = sum.Merge(part)
			}
			spent += time.Since(begun)
		}
		if err != nil {
			return 0, err
		}
		begun = time.Now()
		_, err = q.Finish(sum)
		spent += time.Since(begun)
		return population, err
	})
	if err != nil {
		return nil, err
	}
	r.Seconds = spent.Seconds()
	r.Rate = float64(population) / r.Seconds
	return r, nil
}

// askable is the question of that name, which clients answer by their mean embedding.
func askable(name string, samples embedding.Matrix) (query.Mergeable, error) {
	q, err := scoring.Ask(name, 1, samples, "made-up samples")
	if err != nil {
		return nil, fault.User(err)
	}
	m, ok := q.(query.Mergeable)
	if !ok || q.NeedsTexts() {
		return nil, fault.Userf("%q needs the clients' texts, and made-up clients have means alone", name)
	}
	return m, nil
}

// partial is what some clients add to the sum.
func partial(q query.Mergeable, texts embedding.Matrix, offsets []int) (query.Partial, error) {
	means, err := query.MeanEmbeddings(texts, offsets)
	if err != nil {
		return query.Partial{}, err
	}
	return q.Partial(query.Clients{Means: means})
}
