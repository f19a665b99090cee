package fedsim

import (
	"errors"

	"popri/scoring/ensemble"
	"popri/scoring/query"
)

// Ensemble are train clients whose texts are prompts of a language model, which votes for the next token of a common
// text (package local). Each client is in one teacher at most. The votes are private data.
type Ensemble interface {
	// N is the number of train clients.
	N() int
	// Votes is the exact histogram of the teachers' votes: how many vote for each token.
	Votes(q ensemble.Question) ([]int64, error)
}

// Teachers are the clients of an [Ensemble], who answer with a histogram.
type Teachers struct{ Ensemble }

// CanAnswer implements Clients.
func (t Teachers) CanAnswer(q query.Question) error {
	return only[ensemble.Question](q, "tokens to vote for")
}

// Sum implements Clients: the histogram in steps of the grid, which are powers of two below 1.
func (t Teachers) Sum(r Round) (Sum, error) {
	counts, err := t.Votes(r.Query.(ensemble.Question))
	if err != nil {
		return Sum{}, err
	}
	if r.Grid.Step > 1 {
		return Sum{}, errors.New("the noise is so strong that single votes lie between two steps of its grid")
	}
	if len(counts) != r.Query.Len() {
		return Sum{}, errors.New("the teachers' histogram has another length than the question")
	}
	for i, n := range counts {
		counts[i] = r.Grid.Round(float64(n))
	}
	return Sum{counts, t.N()}, nil
}
