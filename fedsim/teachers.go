package fedsim

import (
	"errors"

	"popri/accountant/ledger"
	"popri/fedsim/noise"
	"popri/scoring/ensemble"
)

// Teachers are train clients whose texts are prompts of a language model, which votes for the next token of a common
// text (package teachers). Each client is in one teacher at most. The votes are private data.
type Teachers interface {
	// Clients is the number of train clients.
	Clients() int
	// Votes is the exact histogram of the teachers' votes: how many vote for each token.
	Votes(q ensemble.Question) ([]int64, error)
}

// NewEnsemble makes a federation of train clients who vote as teachers. Noise, charge and the states of a release are
// those of this package. What is released of a noised histogram is the token that its question chooses, with its noised
// count, or that there is none.
func NewEnsemble(teachers Teachers, config Config) (*Federation, error) {
	if config.Sampling == "" {
		config.Sampling = ledger.Full
	}
	err := config.validate(teachers.Clients())
	if config.Sampling != ledger.Full || config.Least > 0 || config.UnsafeDiagnostics != nil {
		err = errors.Join(err,
			errors.New("fedsim: all teachers vote each time, in one place: no cohorts, no aggregators, no diagnostics"))
	}
	if err != nil {
		return nil, err
	}
	return &Federation{config: config, train: teachers.Clients(), teachers: teachers}, nil
}

// votes is the exact histogram of the teachers' votes in steps of the grid, which are powers of two below 1.
func (f *Federation) votes(q ensemble.Question, grid noise.Grid) ([]int64, error) {
	counts, err := f.teachers.Votes(q)
	if err != nil {
		return nil, err
	}
	if grid.Step > 1 {
		return nil, errors.New("the noise is so strong that single votes lie between two steps of its grid")
	}
	if len(counts) != q.Len() {
		return nil, errors.New("the teachers' histogram has another length than the question")
	}
	for i, n := range counts {
		counts[i] = grid.Round(float64(n))
	}
	return counts, nil
}
