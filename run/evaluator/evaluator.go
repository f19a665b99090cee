// Package evaluator trains the small model of a configuration on texts, and measures on the test clients what it
// learnt: for a run's product and its comparators, and for any file of texts.
package evaluator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/internal/atomicfile"
	"popri/internal/datakey"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/run/assembly"
	"popri/run/evaluation"
)

// Stage is the name of the stage in which small models are trained and tested.
const Stage = "evaluate"

// Progress receives the progress of an evaluation, from several goroutines; nil functions are not called.
type Progress struct {
	Begin func() // the models are about to be trained
	// Updated is told the work on all models ([downstream.Suite]), one call at a time; the plan shrinks where models end early.
	Updated func(done, planned int)
	End     func(r downstream.Result)
	Done    func() // all models are measured, or the evaluation failed
}

// Options say how an evaluation is done.
type Options struct {
	Progress Progress
	// Cache is a folder of fine-tunings that several evaluations share; "" does each again.
	Cache string
	// Small is the folder that the small model of the texts is written to; "" keeps none.
	Small string
	// Replacing, if not nil, is called before Small is replaced.
	Replacing func() error
	// By are settings of another small model than the configuration's, "key=value".
	By []string
	// Own makes figures of another small model than the configuration's again, where By is empty.
	Own bool
}

// Compare compares texts by what the configuration's small model learns from them; dir is where the figures go, main the
// key of the source that the others are compared with, "" for none. A classification's ε = 0 point learns from the
// public text. Protected test clients are refused.
func Compare(ctx context.Context, c configs.Config, population *clients.Population, public []datasets.Text, dir,
	main string, sources []downstream.Source, o Options) (*evaluation.Outcome, error) {
	if err := assembly.ExactFigures(population, dir); err != nil {
		return nil, err
	}
	suite, err := o.suite(c, population, public)
	if err != nil {
		return nil, err
	}
	suite.Kept = cmp.Or(main, evaluation.KeyText)
	if i := slices.IndexFunc(sources, func(src downstream.Source) bool { return src.Key == suite.Kept }); i >= 0 {
		suite.Typed = typed(sources[i], c.Seed)
	}
	suite.Draws, suite.Main, suite.End = resamples, main, o.Progress.End
	if o.Progress.Begin != nil {
		o.Progress.Begin()
	}
	results, err := suite.Run(ctx, sources)
	if o.Progress.Done != nil {
		o.Progress.Done()
	}
	if err != nil {
		return nil, err
	}
	e := &evaluation.Outcome{Results: results, Clients: suite.TestClients(), Seed: c.Seed,
		Small: evaluation.SmallOf(c), Typed: suite.Typed, Protocol: protocol(c.Downstream, c.Downstream.Training())}
	if classifies(c) {
		e.Task, e.Labels = c.Downstream.Task, len(suite.Labels)
		if suite.Zero != nil {
			sources = append([]downstream.Source{*suite.Zero}, sources...)
		}
		e.Notes = labelNotes(population, suite.Labels, sources)
	}
	if e.HasReference() {
		e.OutsideEpsilon = guarantee.Reference
	}
	return e, nil
}

// suite prepares the training of small models with these options.
func (o Options) suite(c configs.Config, population *clients.Population, public []datasets.Text) (downstream.Suite,
	error) {
	suite, err := newSuite(c, population, public)
	if err != nil {
		return suite, err
	}
	if o.Cache != "" {
		atomicfile.RemoveAbandoned(o.Cache)
		if suite.CacheKey, err = datakey.Load(); err != nil {
			return suite, fault.Userf("%w", err)
		}
	}
	suite.Cache, suite.ReferencePrivate, suite.Progress = o.Cache, c.Eval.ReferencePrivate, o.Progress.Updated
	if suite.Small, suite.Replacing = o.Small, o.Replacing; assembly.SameFile(suite.ModelDir, o.Small) {
		return suite, fault.Userf("downstream.model is %s, where the trained model would replace it: name another folder", o.Small)
	}
	return suite, nil
}

// protocol says how a small model is trained, after "every model".
func protocol(d configs.Downstream, r configs.Recipe) string {
	length := fmt.Sprintf("takes the same %d steps", d.Steps)
	if d.Epochs > 0 {
		length = fmt.Sprintf("takes %d passes over its texts", d.Epochs)
	}
	if r.Patience > 0 {
		length += fmt.Sprintf(" unless %d measurements in a row give no better one", r.Patience)
	}
	if r.Tested > 0 {
		length += fmt.Sprintf(", is tested on %d texts at most", r.Tested)
	}
	figure := map[string]string{"loss": "least loss", "accuracy": "highest accuracy"}[d.Best]
	rate := ""
	if len(d.LearningRates) > 1 {
		rate = fmt.Sprintf(", with each of %d learning rates", len(d.LearningRates))
	}
	text := fmt.Sprintf("%s%s; the one with the %s on the validation clients is used", length, rate, figure)
	if d.Trainings > 1 {
		text += fmt.Sprintf("; each figure is of the tokens of %d such trainings together, whose spread the intervals count, too", d.Trainings)
	}
	return text
}

// typedTexts is the number of texts whose beginnings a report shows with the small models' suggestions.
const typedTexts = 20

// typed returns beginnings of a source's texts, drawn by the seed, which end before a word.
func typed(src downstream.Source, seed uint64) (list []string) {
	for _, i := range rng.New(seed, "evaluate", "typed").Perm(len(src.Texts)) {
		words := strings.Fields(src.Texts[i])
		if n := min(12, 2*len(words)/3); n >= 4 && len(list) < typedTexts {
			list = append(list, strings.Join(words[:n], " ")+" ")
		}
	}
	return list
}
