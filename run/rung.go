package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/evaluation"
	"popri/run/evaluator"
)

// JudgeStage is the stage in which a small model is trained and judged by an adaptive ablation.
const JudgeStage = "judge"

// Rung is what the text of a run after some of its rounds did for the small model on the validation clients, in
// rungs.json.
type Rung struct {
	Rounds   int     `json:"rounds"`
	Texts    int     `json:"texts"`
	Accuracy float64 `json:"accuracy"`
	Loss     float64 `json:"loss"` // nats a token
}

// Climb trains up to a round, trains the small model on the text that the adapters of that round write, measures it on the
// validation clients and keeps the figures in rungs.json. trainer.select has no part in it: the samples that measure a
// round's adapters are the next round's. Whether the run continues, the caller decides.
func (s *Session) Climb(ctx context.Context, last int) (r Rung, err error) {
	if s.Config.Learns() {
		return r, fault.Userf("method is %q: an adaptive order trains small models on text, and its product is a model. "+
			"Leave --adaptive out", s.Config.Method)
	}
	known, err := Rungs(s.Dir)
	if err != nil {
		return r, err
	}
	if r, err = s.measure(ctx, last); err != nil {
		return r, s.tracking.Fail(err)
	}
	if err := atomicfile.WriteJSON(filepath.Join(s.Dir, rundir.Rungs), append(known, r)); err != nil {
		return r, err
	}
	if err := s.clearRung(); err != nil {
		return r, err
	}
	s.runner.Events.Log("stopped", last, struct{}{})
	_ = s.tracking.Fail(rounds.Stopped{Round: last})
	return r, nil
}

// measure trains up to a round, and the small model on the text of that state. A run that is beyond the round, such as
// one of a plain ablation, has that state no more.
func (s *Session) measure(ctx context.Context, last int) (m Rung, err error) {
	m.Rounds = last
	if err := s.clearRung(); err != nil {
		return m, err
	}
	if done := s.runner.Done(); done > last {
		return m, fault.Userf("%s is beyond round %d, after which --adaptive would judge it: name another folder",
			s.Dir, last)
	}
	s.tellPublicTexts()
	if err := s.runner.TrainTo(ctx, last); err != nil {
		return m, err
	}
	folder := filepath.Join(s.Dir, rundir.Rung)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return m, err
	}
	if err := s.runner.NewestIn(ctx, folder); err != nil {
		return m, err
	}
	product, err := rows.Read[sampling.Row](filepath.Join(folder, rundir.Synthetic))
	if err != nil {
		return m, err
	}
	m.Texts = len(product)
	err = s.timed(JudgeStage, func() error {
		src := evaluator.Source(s.Config, evaluation.KeyText, fmt.Sprintf("the text after round %d", last), product)
		points, err := evaluator.Validate(ctx, s.Config, s.Data.Private, s.Data.Public.Generator, s.log.Progress, src)
		if err == nil {
			m.Accuracy, m.Loss = points[0].Accuracy, points[0].Loss
		}
		return err
	})
	if err == nil && (math.IsNaN(m.Loss) || math.IsInf(m.Loss, 0)) {
		err = errors.New("the small model's loss on the validation clients is no number")
	}
	return m, err
}

// clearRung removes what a measurement made besides its figures. The written texts of a round depend on the rounds that
// followed it, so the synthetic set must not find an earlier time's.
func (s *Session) clearRung() error {
	folder := filepath.Join(s.Dir, rundir.Rung)
	if !rundir.Has(s.Dir, rundir.Rung) {
		return nil
	}
	if err := rounds.ForgetWritten(s.Dir); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// Rungs reads what was measured of the run in dir, nothing of one that is new.
func Rungs(dir string) (list []Rung, err error) {
	_, err = atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Rungs), &list)
	return list, err
}
