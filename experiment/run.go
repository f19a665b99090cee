package experiment

import (
	"cmp"
	"context"
	"encoding/json"
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
	"popri/guarantee"
	"popri/internal/atomicfile"
	"popri/internal/datakey"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/method"
	"popri/methods"
	"popri/models"
	"popri/rundir"
	"popri/sampling"
	"popri/trainer"
)

// Files in a run's folder besides the trainer's.
const (
	UntunedFile = rundir.Untuned
	EvalFile    = rundir.Eval
	ReportFile  = rundir.Report
)

// Train does the remaining rounds and writes the synthetic set. If the budget ends before the last round, the set comes
// from the completed rounds, and Train returns the budget's error.
func (s *Session) Train(ctx context.Context) error {
	if err := s.clearRung(); err != nil {
		return s.tracking.fail(err)
	}
	s.tellPublicTexts()
	ended := s.trainer.Train(ctx)
	if ended != nil && (!errors.Is(ended, ledger.ErrBudget) || s.trainer.Done() == 0) {
		return s.tracking.fail(ended)
	}
	return cmp.Or(s.tracking.fail(s.trainer.Product(ctx)), ended)
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

// Evaluation is eval.json.
type Evaluation struct {
	Results []downstream.Result `json:"results"`
	Clients int                 `json:"test_clients"`
	Seed    uint64              `json:"seed"`
	// Task is that of the configuration, and Labels the number of labels of a classification; "" and 0 for next tokens.
	Task   string `json:"task,omitempty"`
	Labels int    `json:"labels,omitempty"`
	// Notes are sentences about what limits the figures.
	Notes []string `json:"notes,omitempty"`
	// Protocol says, in a clause, how every model was trained.
	Protocol string `json:"protocol"`
	// PublicDistance says how far public text is from the clients; nil if only part of the table was asked for.
	PublicDistance *PublicDistance `json:"public_distance,omitempty"`
	// OutsideEpsilon says which figures the guarantee does not cover; "" if none depends on the train clients.
	OutsideEpsilon string `json:"outside_epsilon,omitempty"`
}

// HasReference reports whether a model was trained on the train clients' own text.
func (e *Evaluation) HasReference() bool { return e.Result(downstream.Private) != nil }

// Result returns the result with the given key, or nil.
func (e *Evaluation) Result(key string) *downstream.Result {
	for i := range e.Results {
		if e.Results[i].Key == key {
			return &e.Results[i]
		}
	}
	return nil
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
func (s *Session) Evaluate(ctx context.Context, o EvalOptions) (*Evaluation, error) {
	e, err := s.evaluate(ctx, o)
	if s.tracking.fail(err) == nil {
		s.tracking.evaluated(e)
	}
	return e, err
}

func (s *Session) evaluate(ctx context.Context, o EvalOptions) (*Evaluation, error) {
	product, err := rows.Read[sampling.Row](filepath.Join(s.Dir, rundir.Synthetic))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mistake("%s holds no synthetic set yet: let the run end first (--resume)", s.Dir)
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
	e, err := ReadEvaluation(s.Dir)
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
			e.PublicDistance, err = s.publicDistance()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, e.write(s.Dir)
}

// write writes eval.json.
func (e *Evaluation) write(dir string) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, EvalFile), append(b, '\n'))
}

// evaluate compares texts by what the configuration's small model learns from them; main is the key of the source that
// the others are compared with, "" for none. A classification's ε = 0 point learns from the public text.
func evaluate(ctx context.Context, c configs.Config, population *clients.Population, public []datasets.Text, main string,
	sources []downstream.Source, o EvalOptions) (*Evaluation, error) {
	suite, err := newSuite(c, population, public)
	if err != nil {
		return nil, err
	}
	var key []byte
	if o.Cache != "" {
		if key, err = datakey.Load(); err != nil {
			return nil, mistake("%w", err)
		}
	}
	suite.Draws, suite.Cache, suite.CacheKey = resamples, o.Cache, key
	suite.Main, suite.ReferencePrivate = main, c.Eval.ReferencePrivate
	suite.End, suite.Progress = o.Progress.End, o.Progress.Updated
	results, err := suite.Run(ctx, sources)
	if o.Progress.Done != nil {
		o.Progress.Done()
	}
	if err != nil {
		return nil, err
	}
	e := &Evaluation{Results: results, Clients: suite.TestClients(), Seed: c.Seed, Protocol: protocol(c.Downstream)}
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

// resamples is the number of resamples of the test clients for the confidence intervals. With fewer than 100, their ends vary
// much from seed to seed.
const resamples = 1000

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
		Length: d.Length,
		Rows:   d.Rows, LearningRates: rates, Schedule: d.Schedule, Warmup: d.WarmupSteps, WeightDecay: d.WeightDecay,
		MaxNorm: d.MaxGradNorm, Dropout: d.Dropout, EvalEvery: d.EvalEvery, Best: d.Best,
		Seed: rng.Seed(c.Seed, "downstream"), Compute: assembly.ComputeType(c.Model.DType)}
	return downstream.Suite{ModelDir: dir, Population: population, Labels: labels, Zero: publicSource(c, public),
		Options: options}, err
}

// ReadEvaluation reads a run's eval.json.
func ReadEvaluation(dir string) (*Evaluation, error) {
	path := filepath.Join(dir, EvalFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var e Evaluation
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e.Protocol == "" { // of an earlier version
		e.Protocol = "takes the same number of steps; the one with the least loss on the validation clients is used"
	}
	return &e, nil
}
