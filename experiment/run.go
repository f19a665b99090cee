package experiment

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"popri/accountant/ledger"
	"popri/downstream"
	"popri/eval/domain"
	"popri/internal/rows"
	"popri/method"
	"popri/methods"
	"popri/run/comparators"
	"popri/run/evaluation"
	"popri/run/evaluator"
	"popri/rundir"
	"popri/sampling"
	"popri/trainer"
)

// Train does the remaining rounds and writes the synthetic set. If the budget ends before the last round, the set comes
// from the completed rounds, and Train returns the budget's error.
func (s *Session) Train(ctx context.Context) error {
	if err := s.clearRung(); err != nil {
		return s.tracking.Fail(err)
	}
	s.tellPublicTexts()
	ended := s.trainer.Train(ctx)
	if ended != nil && (!errors.Is(ended, ledger.ErrBudget) || s.trainer.Done() == 0) {
		return s.tracking.Fail(ended)
	}
	return cmp.Or(s.tracking.Fail(s.trainer.Product(ctx)), ended)
}

// tellPublicTexts says how many public texts prompts can quote.
func (s *Session) tellPublicTexts() {
	texts, events := s.prompter.Public, s.trainer.Events
	events.Log("public_texts", 0, texts)
	events.Say(texts.String())
	if w := texts.Warning(); w != "" {
		events.Say(w)
	}
}

// untuned writes the text of the untuned model, from the prompts and seeds of the synthetic set, and returns it.
func (s *Session) untuned(ctx context.Context) (text []sampling.Row, err error) {
	file := filepath.Join(s.Dir, rundir.Untuned)
	if rundir.Has(s.Dir, rundir.Untuned) {
		if err := os.RemoveAll(sampling.PartsOf(file)); err != nil { // a kill after the last part may have left them
			return nil, err
		}
		return rows.Read[sampling.Row](file)
	}
	err = s.trainer.Stage("synthesize untuned", 0, func(stage trainer.Stage) error {
		writer := sampling.Writer{Config: s.Config.Generate}
		env := method.Env{Dir: s.Dir, Config: s.Config, Model: s.generator.Model, Engine: s.engine}
		return env.WithSampler(nil, func(model sampling.Sampler) (err error) {
			text, err = writer.Set(ctx, model, s.prompter, s.Config.Synthetic, s.Config.Seed, "untuned", file, stage.Progress)
			return err
		})
	})
	return text, err
}

// Evaluate trains the small model on the synthetic set and on its comparators, and writes eval.json. An existing
// eval.json with all wanted rows is read instead. only are the keys of the training texts besides ε = 0 and, if allowed,
// ε = ∞; none is all.
func (s *Session) Evaluate(ctx context.Context, o evaluator.Options, only ...string) (*evaluation.Outcome, error) {
	e, err := s.evaluate(ctx, o, only)
	if s.tracking.Fail(err) == nil {
		s.tracking.Evaluated(e)
	}
	return e, err
}

func (s *Session) evaluate(ctx context.Context, o evaluator.Options, only []string) (*evaluation.Outcome, error) {
	texts := s.comparators()
	if err := texts.Read(); err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(texts.Keys(), func(key string) bool { return len(only) > 0 && !slices.Contains(only, key) })
	e, err := evaluation.Read(s.Dir)
	complete := func(key string) bool { return e.Result(key) != nil }
	if err == nil && !slices.ContainsFunc(keys, func(key string) bool { return !complete(key) }) &&
		e.HasReference() == s.Config.Eval.ReferencePrivate {
		return e, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var sources []downstream.Source
	for _, key := range keys {
		src, err := texts.Source(ctx, key)
		if err != nil {
			return nil, err
		}
		sources = append(sources, src)
	}
	listener := o.Progress.Updated
	o.Progress.Updated = func(done, planned int) { // the models' updates are the parts of the stage
		s.log.Progress(done, planned)
		if listener != nil {
			listener(done, planned)
		}
	}
	err = s.timed(evaluator.Stage, func() error {
		e, err = evaluator.Compare(ctx, s.Config, s.Population, s.Public.Generator, methods.Of(s.Config).Name, sources, o)
		if err == nil && len(only) == 0 {
			e.PublicDistance, err = domain.Measure(s.Public.Generator, s.Population, s.encoder, s.Config.Seed)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, e.Write(s.Dir)
}

// comparators are the texts that the run is compared with.
func (s *Session) comparators() *comparators.Run {
	return &comparators.Run{Dir: s.Dir, Config: s.Config, Public: s.Public, Encoder: s.encoder, Untuned: s.untuned}
}

// chooseMix chooses the product by the validation clients, and tells what it chose.
func (s *Session) chooseMix(ctx context.Context, stage trainer.Stage, product []sampling.Row) ([]sampling.Row, error) {
	chosen, mixed, err := comparators.ChooseMix(ctx, *s.comparators(), s.Population, product)
	if err == nil && mixed != nil {
		stage.Log("mixed", *mixed)
		s.trainer.Events.Say(mixed.String())
	}
	return chosen, err
}
