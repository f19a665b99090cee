package fedsim

import (
	"popri/scoring/counts"
	"popri/scoring/query"
)

// Counter holds the tokens of each train client's texts (package local). They are private data.
type Counter interface {
	// N is the number of train clients.
	N() int
	// Rows are the texts of a client, as rows of tokens.
	Rows(client int) [][]int32
}

// Counting are clients who count the tokens of their texts and pairs of them. Few of the values of a client's vector
// are not zero, and only these are rounded and added: zero is on every grid.
type Counting struct{ Counter }

// CanAnswer implements Clients.
func (c Counting) CanAnswer(q query.Question) error {
	return only[counts.Question](q, "counts of tokens")
}

// Sum implements Clients.
func (c Counting) Sum(r Round) (Sum, error) {
	q, sum := r.Query.(counts.Question), Sum{make([]int64, r.Query.Len()), c.N()}
	for done, client := range r.Cohort {
		index, values := q.Vector(c.Rows(client))
		steps, err := r.Grid.RoundBounded(values, q.Bound())
		if err != nil {
			return sum, err
		}
		for i, at := range index {
			sum.Steps[at] += steps[i]
		}
		r.tell(done+1, c.N())
	}
	return sum, nil
}
