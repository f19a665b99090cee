package study

import (
	"context"
	"errors"
	"path/filepath"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods"
	"popri/run"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/run/reporting"
	"popri/study/cost"
	"popri/study/grid"
)

// Unused returns an error if a cell's folder in dir holds a run with other settings.
func Unused(dir string, cells []grid.Cell) error {
	for _, c := range cells {
		run := filepath.Join(dir, c.Name)
		if !rundir.Exists(run) {
			continue
		}
		found, err := configs.Load(configs.LoadOptions{File: filepath.Join(run, rundir.Config)})
		if err != nil {
			return err
		}
		if key, have, want := c.Differs(*found); key != "" {
			return fault.Userf("%s holds a run with %s = %v, and %v is asked for: name another folder", run, key, have,
				want)
		}
	}
	return nil
}

// result reads the evaluation of the cell, nil if it is not there or not complete.
func result(c grid.Cell, dir string) (*evaluation.Outcome, error) {
	e, err := evaluation.Read(filepath.Join(dir, c.Name))
	if e == nil || e.Result(methods.Of(c.Config).Name) == nil || e.HasReference() != c.Config.Eval.ReferencePrivate ||
		e.Differs(c.Config) != nil {
		return nil, err
	}
	return e, nil
}

// Finished reports whether the cell's run in the ablation's folder is evaluated.
func Finished(c grid.Cell, dir string) (bool, error) {
	e, err := result(c, dir)
	return e != nil, err
}

// open opens the cell's run, or continues with it. The release of another cell that asked the same serves it, too.
func open(ctx context.Context, c grid.Cell, o Options) (*run.Session, error) {
	dir := filepath.Join(o.Dir, c.Name)
	s, err := run.Open(ctx, run.Options{Config: c.Config, Dir: dir, Resume: rundir.Exists(dir), Listen: o.Listen,
		Trackers: o.Trackers, Warn: o.Warn, Common: o.common, Evaluates: true})
	if err != nil {
		return nil, err
	}
	asks := cost.Question(c)
	if asks == "" {
		return s, nil
	}
	for _, other := range o.asking {
		if other.Name == c.Name || cost.Question(other) != asks {
			continue
		}
		asked := filepath.Join(o.Dir, other.Name)
		offered, err := s.Reuse(asked)
		if err != nil {
			s.Close()
			return nil, err
		}
		if offered {
			o.say("%s asked the clients the same: its release serves this run, too", filepath.Base(asked))
			break
		}
	}
	return s, nil
}

// complete runs and evaluates the cell, or reads its figures if an earlier call did.
func complete(ctx context.Context, c grid.Cell, i, n int, o Options) (*evaluation.Outcome, error) {
	dir := filepath.Join(o.Dir, c.Name)
	e, err := result(c, o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Begin != nil {
		o.Begin(i, n, c, e != nil)
	}
	if e != nil {
		return e, nil
	}
	if o.Elsewhere[c.Name] {
		return nil, errors.New("its job failed: jobs/failed and the job's output say why")
	}
	s, err := open(ctx, c, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Train(ctx); err != nil {
		return nil, err
	}
	eval := evaluator.Options{Cache: filepath.Join(o.Dir, evaluator.CacheFolder), Own: true}
	if o.Progress != nil {
		eval.Progress = o.Progress()
	}
	if e, err = s.Evaluate(ctx, eval, methods.Of(c.Config).Name); err != nil {
		return nil, err
	}
	_, err = reporting.Write(dir)
	return e, err
}
