package target

import (
	"context"
	"errors"
	"slices"

	"popri/internal/rng"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/scoring"
)

// Kept says what weights on texts that a model wrote did, in the event "kept".
type Kept struct {
	Texts     int     `json:"texts"`     // written, without empty ones
	Effective float64 `json:"effective"` // number of texts of equal weight that carry as much information
	Distance  float64 `json:"distance"`  // released distance of the texts from the clients
	Weighted  float64 `json:"weighted"`  // the same with the weights
}

// Keep draws n rows from texts that a model wrote, by the weights nearest to equal ones with which their mean embedding
// comes as near to the clients' as the noise allows. The weights leave at least the given fraction of the texts as
// effective number ([scoring.Weighting]). Empty texts are left out. tell, if not nil, is told how many texts are
// embedded.
func (t *Target) Keep(ctx context.Context, e embedding.Encoder, written []sampling.Row, n int, share float64, seed uint64,
	tell func(done, total int)) ([]sampling.Row, Kept, error) {
	written = slices.DeleteFunc(slices.Clone(written), func(r sampling.Row) bool { return r.Text == "" })
	if len(written) == 0 {
		return nil, Kept{}, errors.New("the model wrote empty texts only: there is none to keep")
	}
	vectors, err := embedding.InParts(ctx, e, sampling.Texts(written), tell)
	if err != nil {
		return nil, Kept{}, err
	}
	copies, w, err := t.copies(vectors, n, share*float64(len(written)), seed)
	if err != nil {
		return nil, Kept{}, err
	}
	var out []sampling.Row
	for i, c := range copies {
		out = append(out, slices.Repeat(written[i:i+1], c)...)
	}
	return out, Kept{len(written), w.Effective, t.Distance(vectors), w.Distance}, nil
}

// copies says how often each of the texts with these embeddings is among n rows.
func (t *Target) copies(vectors embedding.Matrix, n int, effective float64, seed uint64) ([]int, scoring.Weighting, error) {
	w, err := scoring.Match(vectors, nil, t.wanted(), t.radius(), effective)
	if err != nil {
		return nil, w, err
	}
	return Copies(w.Weights, n, rng.New(seed, "synthetic", "kept").Float64()), w, nil
}
