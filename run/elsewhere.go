package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"popri/eval/downstream"
	"popri/fedsim/local"
	"popri/internal/fault"
	"popri/model/lm"
	"popri/scoring/update"
)

// Small is the small model of clients on this machine, which answer for it in a run elsewhere. It implements
// client.Trainer, and trains at one client at a time, as the simulation does.
type Small struct {
	dir, folder string // the path and its identity
	mutex       sync.Mutex
	model       update.Model // of learner
	learner     *local.Learner
	rows        downstream.Encoder
}

// OpenSmall opens the folder of the small model, without its weights.
func OpenSmall(dir string) (*Small, error) {
	folder, err := lm.Identity(dir)
	return &Small{dir: dir, folder: folder}, fault.User(err)
}

// Ready implements client.Trainer.
func (s *Small) Ready(q update.Question) error {
	if q.Model.Folder != s.folder {
		return fault.Userf("the small model %s has the hash %s (architecture, tokenizer and weights), the question is for %s",
			s.dir, s.folder, q.Model.Folder)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.learner == nil || s.model != q.Model {
		if err := s.open(q.Model); err != nil {
			return fault.User(err)
		}
	}
	if n := s.learner.Len(); n != q.Len() {
		return fault.Userf("the question has %d weights, an adapter of the small model %s has %d", q.Len(), s.dir, n)
	}
	return nil
}

func (s *Small) open(m update.Model) error {
	s.learner.Free()
	s.learner = nil
	shape, err := lm.Inspect(s.dir)
	if err != nil {
		return err
	}
	if most := shape.Config.Context; m.Length > most {
		return fmt.Errorf("the question cuts texts to %d tokens, the small model %s takes %d", m.Length, s.dir, most)
	}
	if s.rows, err = downstream.OpenEncoder(s.dir, m.Rows, m.Length); err != nil {
		return err
	}
	part, err := parts(s.dir, m, "auto")()
	if err != nil {
		return err
	}
	s.model = m
	s.learner, err = local.NewLearner(part)
	return err
}

// Change implements client.Trainer. A call that comes while another one still computes waits for it.
func (s *Small) Change(ctx context.Context, q update.Question, texts []string) ([]float64, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.learner == nil || s.model != q.Model {
		return nil, errors.New("run: the small model is not ready for the question")
	}
	change, err := s.learner.Change(ctx, q, s.rows.Encode(texts))
	return slices.Clone(change), err
}

// Close frees the model.
func (s *Small) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.learner.Free()
	s.learner = nil
}
