package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"popri/accountant/ledger"
	"popri/assembly"
	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/downstream"
	"popri/eval/domain"
	"popri/guarantee"
	"popri/internal/datakey"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/method"
	"popri/methods"
	"popri/models"
	"popri/run/evaluation"
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
	if exists(file) {
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

// EvalProgress receives the progress of an evaluation, from several goroutines; nil functions are not called.
type EvalProgress struct {
	Updated func(done, planned int) // updates of all models, one call at a time; the plan shrinks where models end early
	End     func(r downstream.Result)
	Done    func() // all models are measured, or the evaluation failed
}

// EvalOptions say what an evaluation compares.
type EvalOptions struct {
	Progress EvalProgress
	// Sources are the keys of the training texts besides ε = 0 and, if allowed, ε = ∞; nil is all.
	Sources []string
	// Cache is a folder of fine-tunings that several runs share; "" does each again.
	Cache string
	// Out is the folder for the eval.json of [Judge], "" for none. Trackers show its figures, as in [Options]; they need Out.
	Out      string
	Trackers []string
	Warn     func(text string)
}

// Evaluate trains the small model on the synthetic set and on its comparators, and writes eval.json. An existing
// eval.json with all wanted rows is read instead.
func (s *Session) Evaluate(ctx context.Context, o EvalOptions) (*evaluation.Outcome, error) {
	e, err := s.evaluate(ctx, o)
	if s.tracking.Fail(err) == nil {
		s.tracking.Evaluated(e)
	}
	return e, err
}

func (s *Session) evaluate(ctx context.Context, o EvalOptions) (*evaluation.Outcome, error) {
	product, err := rows.Read[sampling.Row](filepath.Join(s.Dir, rundir.Synthetic))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Userf("%s holds no synthetic set yet: let the run end first (--resume)", s.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("the synthetic set: %w", err)
	}
	mixes, err := rows.Read[sampling.Row](filepath.Join(s.Dir, rundir.Mixes)) // which has both parts, whatever was chosen
	switch {
	case errors.Is(err, fs.ErrNotExist):
		mixes = product
	case err != nil:
		return nil, err
	}
	keys := slices.DeleteFunc(s.keys(mixes), func(key string) bool {
		return o.Sources != nil && !slices.Contains(o.Sources, key)
	})
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
		src, err := s.source(ctx, key, product, mixes)
		if err != nil {
			return nil, err
		}
		sources = append(sources, src)
	}
	o.Progress = s.timings.counting(o.Progress)
	err = s.timed(evaluateStage, func() error {
		e, err = evaluate(ctx, s.Config, s.Population, s.Public.Generator, methods.Of(s.Config).Name, sources, o)
		if err == nil && o.Sources == nil {
			e.PublicDistance, err = domain.Measure(s.Public.Generator, s.Population, s.encoder, s.Config.Seed)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, e.Write(s.Dir)
}

// evaluate compares texts by what the configuration's small model learns from them; main is the key of the source that
// the others are compared with, "" for none. A classification's ε = 0 point learns from the public text.
func evaluate(ctx context.Context, c configs.Config, population *clients.Population, public []datasets.Text, main string,
	sources []downstream.Source, o EvalOptions) (*evaluation.Outcome, error) {
	suite, err := newSuite(c, population, public)
	if err != nil {
		return nil, err
	}
	var key []byte
	if o.Cache != "" {
		if key, err = datakey.Load(); err != nil {
			return nil, fault.Userf("%w", err)
		}
	}
	suite.Draws, suite.Cache, suite.CacheKey = c.Downstream.Bootstrap, o.Cache, key
	suite.Main, suite.ReferencePrivate = main, c.Eval.ReferencePrivate
	suite.End, suite.Progress = o.Progress.End, o.Progress.Updated
	results, err := suite.Run(ctx, sources)
	if o.Progress.Done != nil {
		o.Progress.Done()
	}
	if err != nil {
		return nil, err
	}
	e := &evaluation.Outcome{Results: results, Clients: suite.TestClients(), Seed: c.Seed, Protocol: protocol(c.Downstream)}
	if classifies(c) {
		e.Task, e.Labels = c.Downstream.Task, len(suite.Labels)
		if suite.Zero != nil {
			sources = append([]downstream.Source{*suite.Zero}, sources...)
		}
		e.Notes = labelNotes(population, suite.Labels, sources)
		if note := noGap(e); note != "" {
			e.Notes = append(e.Notes, note)
		}
	}
	if e.HasReference() {
		e.OutsideEpsilon = guarantee.Reference
	}
	return e, nil
}

// protocol says how a small model is trained, after "every model".
func protocol(d configs.Downstream) string {
	length := fmt.Sprintf("takes the same %d steps", d.Steps)
	if d.Epochs > 0 {
		length = fmt.Sprintf("takes %d passes over its texts", d.Epochs)
	}
	figure := map[string]string{"loss": "least loss", "accuracy": "highest accuracy"}[d.Best]
	rate := ""
	if len(d.LearningRates) > 0 {
		rate = fmt.Sprintf(", with each of %d learning rates", len(d.LearningRates)+1)
	}
	return fmt.Sprintf("%s%s; the one with the %s on the validation clients is used", length, rate, figure)
}

// newSuite prepares the training of the configuration's small model. The public text gives a classification labels and its
// ε = 0 point.
func newSuite(c configs.Config, population *clients.Population, public []datasets.Text) (downstream.Suite, error) {
	d := c.Downstream
	dir, err := assembly.ModelDir(d.Model, models.Device)
	if err != nil {
		return downstream.Suite{}, err
	}
	labels, err := classes(c, population, public)
	rates := append([]float64{d.LearningRate}, d.LearningRates...)
	options := downstream.Options{Steps: d.Steps, Epochs: d.Epochs, Batch: d.Batch, Micro: d.MicroTexts,
		Recompute: d.GradientCheckpointing, Length: d.Length,
		Rows: d.Rows, LearningRates: rates, Schedule: d.Schedule, Warmup: d.WarmupSteps, WeightDecay: d.WeightDecay,
		MaxNorm: d.MaxGradNorm, Dropout: d.Dropout, EvalEvery: d.EvalEvery, Best: d.Best, Patience: d.Patience,
		Seed: rng.Seed(c.Seed, "downstream"), Compute: assembly.ComputeType(c.Model.DType)}
	return downstream.Suite{ModelDir: dir, Population: population, Labels: labels, Zero: publicSource(c, public),
		Options: options}, err
}
