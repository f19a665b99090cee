package run

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/configs"
	"popri/eval/domain"
	"popri/internal/atomicfile"
	"popri/internal/fault"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/run/evaluator"
)

// untuned writes the text of the untuned model, from the prompts and seeds of the synthetic set, and returns it.
func (s *Session) untuned(ctx context.Context) ([]sampling.Row, error) {
	return s.once(rundir.Untuned, "synthesize untuned",
		func(stage rounds.Stage, file string) (text []sampling.Row, err error) {
			if s.generator.Model == nil {
				if s.generator, err = assembly.LoadGenerator(s.Config); err != nil {
					return nil, err
				}
			}
			writer := sampling.Writer{Config: s.Config.Generate}
			env := method.Env{Dir: s.Dir, Config: s.Config, Model: s.generator.Model, Engine: s.engine}
			err = env.WithSampler(nil, func(model sampling.Sampler) error {
				text, err = writer.Set(ctx, model, s.prompter, s.Config.Synthetic, s.Config.Seed, "untuned", file,
					stage.Progress)
				return err
			})
			return text, err
		})
}

// untrained writes what the method's own prompts and weights give without training; nil if the method has no such text.
func (s *Session) untrained() func(context.Context) ([]sampling.Row, error) {
	m, ok := s.method.(interface {
		Untrained(ctx context.Context, s rounds.Stage, file string) ([]sampling.Row, error)
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context) ([]sampling.Row, error) {
		return s.once(rundir.Untrained, "synthesize without training",
			func(stage rounds.Stage, file string) ([]sampling.Row, error) {
				return m.Untrained(ctx, stage, file)
			})
	}
}

// once writes rows to a file of the run in a stage, or reads the file if it is there.
func (s *Session) once(name, stage string,
	write func(stage rounds.Stage, file string) ([]sampling.Row, error)) (text []sampling.Row, err error) {
	file := filepath.Join(s.Dir, name)
	if rundir.Has(s.Dir, name) {
		if err := os.RemoveAll(sampling.PartsOf(file)); err != nil { // a kill after the last part may have left them
			return nil, err
		}
		return rows.Read[sampling.Row](file)
	}
	err = s.runner.Stage(stage, 0, func(stage rounds.Stage) error {
		text, err = write(stage, file)
		return err
	})
	return text, err
}

// Evaluate trains the small model on the synthetic set and on its comparators, and writes eval.json. An existing
// eval.json with all wanted rows is read instead. only are the keys of the training texts besides ε = 0 and, if
// allowed, ε = ∞; none is all.
func (s *Session) Evaluate(ctx context.Context, o evaluator.Options, only ...string) (*evaluation.Outcome, error) {
	e, err := s.evaluate(ctx, o, only)
	if s.tracking.Fail(err) == nil {
		s.tracking.Evaluated(e)
	}
	return e, err
}

// DeclareReference notes in the run's configuration that the train clients' texts are public or test data, so that
// evaluations train a small model on them (eval.reference_private).
func (s *Session) DeclareReference() error {
	file := filepath.Join(s.Dir, rundir.Config)
	c, err := configs.Load(configs.LoadOptions{File: file}) // without a device that is for this process alone
	if err != nil {
		return err
	}
	c.Eval.ReferencePrivate, s.Config.Eval.ReferencePrivate = true, true
	if err := c.Validate(); err != nil {
		return fault.User(err)
	}
	return atomicfile.WriteBytes(file, c.YAML())
}

func (s *Session) evaluate(ctx context.Context, o evaluator.Options, only []string) (*evaluation.Outcome, error) {
	texts := s.comparators()
	if err := texts.Read(); err != nil {
		return nil, err
	}
	for _, key := range only {
		if !slices.Contains(texts.Keys(), key) {
			return nil, fault.Userf("the table has no row %q: there are %s", key, strings.Join(texts.Keys(), ", "))
		}
	}
	e, err := evaluation.Read(s.Dir)
	if err != nil {
		return nil, err
	}
	complete := func(key string) bool { return e != nil && e.Result(key) != nil }
	config, anew := s.Config, o.Own && e != nil && e.Differs(s.Config) != nil
	if len(o.By) > 0 {
		if config, err = s.otherSmall(o.By); err != nil {
			return nil, err
		}
		anew = e != nil && !maps.Equal(e.Small, evaluation.SmallOf(config))
	}
	keys := slices.DeleteFunc(texts.Keys(), func(key string) bool { // rows that are there stay
		return len(only) > 0 && !slices.Contains(only, key) && (anew || !complete(key))
	})
	product := methods.Of(s.Config).Name
	if !s.Config.Learns() {
		o.Small = filepath.Join(s.Dir, rundir.Small)
		// Figures of another small model must not stay beside it.
		o.Replacing = func() error { return os.RemoveAll(filepath.Join(s.Dir, rundir.Eval)) }
	}
	kept := rundir.Has(s.Dir, rundir.Small) || !slices.Contains(keys, product)
	if e != nil && kept && !anew && !slices.ContainsFunc(keys, func(key string) bool { return !complete(key) }) &&
		e.HasReference() == s.Config.Eval.ReferencePrivate {
		return e, nil
	}
	sources, err := texts.Sources(ctx, keys)
	if err != nil {
		return nil, err
	}
	listener := o.Progress.Updated
	o.Progress.Updated = func(done, planned int) { // the models' updates are the parts of the stage
		s.log.Progress(done, planned)
		if listener != nil {
			listener(done, planned)
		}
	}
	before := e
	err = s.timed(evaluator.Stage, func() error {
		e, err = evaluator.Compare(ctx, config, s.Data.Private, s.Data.Public.Generator, s.Dir, product, sources, o)
		return err
	})
	if err == nil && len(only) > 0 && !anew && before != nil {
		e.PublicDistance = before.PublicDistance
	}
	if err == nil && len(only) == 0 {
		err = s.runner.Stage("compare public text", 0, func(stage rounds.Stage) (err error) {
			e.PublicDistance, err = domain.Measure(ctx, s.Data.Public.Generator, s.Data.Private,
				embedding.Sentence(s.encoder), s.Config.Seed, stage.Progress)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return e, e.Write(s.Dir)
}

// otherSmall is the configuration with other settings of the small model.
func (s *Session) otherSmall(settings []string) (configs.Config, error) {
	c := s.Config
	if c.Learns() {
		return c, fault.Userf("the run's product is the small model itself, which %s was trained to: no other can be trained on it",
			c.Downstream.Model)
	}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		if err := c.Set(key, value); err != nil {
			return c, err
		}
	}
	err := cmp.Or(c.Validate(), evaluator.Check(c, s.Data.Private))
	if err == nil && c.Downstream.Model != s.Config.Downstream.Model {
		err = assembly.CheckSources(c, s.budget, s.ledger.Entries(), "downstream.model")
	}
	return c, err
}

// comparators are the texts that the run is compared with.
func (s *Session) comparators() *evaluator.Comparators {
	return &evaluator.Comparators{Dir: s.Dir, Config: s.Config, Public: s.Data.Public, Untuned: s.untuned,
		Untrained: s.untrained()}
}

// timed does a stage outside of the trainer's.
func (s *Session) timed(name string, f func() error) error {
	s.tracking.Begin(name, 0)
	err := s.log.Stage(name, f)
	if err == nil {
		s.tracking.End()
	}
	return err
}
