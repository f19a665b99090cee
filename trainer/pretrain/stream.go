package pretrain

import (
	"fmt"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/model/lm"
)

// stream is the corpus as the rows of a training, epoch after epoch. Each epoch lays the texts out again, so it has rows
// of its own, and what is left of it begins the next batch.
type stream struct {
	corpus  *Corpus
	options Options
	epoch   int // begun so far
	left    []lm.Row
	at      int // the index of the first of left among all
}

// Indices implements trainer.Batches: batches are read in their order.
func (s *stream) Indices(update int) []int {
	return numeric.Tabulate(s.options.Batch, func(i int) int { return update*s.options.Batch + i })
}

// PerEpoch implements trainer.Batches.
func (s *stream) PerEpoch() float64 { return 0 }

// rows returns the rows with these indices, which follow one another. Those before them are laid out and left, as where a
// training continues.
func (s *stream) rows(indices []int) ([]lm.Row, error) {
	for s.at+len(s.left) <= indices[len(indices)-1] {
		random := rng.New(s.options.Seed, "pretrain", "epoch", fmt.Sprint(s.epoch))
		more := s.corpus.epoch(random, s.options.Context)
		if len(more) == 0 {
			return nil, fault.Userf("the public text to train on has %d tokens, which fill no row of %d",
				s.corpus.Tokens(), s.options.Context)
		}
		s.left = append(s.left, more...)
		s.epoch++
	}
	rows := s.left[indices[0]-s.at:][:len(indices):len(indices)]
	s.left, s.at = s.left[indices[0]-s.at+len(indices):], indices[0]+len(indices)
	return rows, nil
}
