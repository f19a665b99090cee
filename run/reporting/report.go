// Package reporting makes the page of a run, and what the live page says of it, from the files of the run's folder.
package reporting

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/internal/version"
	"popri/methods"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/run/evaluation"
	"popri/run/inputs"
	"popri/show/datacard"
	"popri/show/report"
	"popri/show/series"
)

// Of collects the contents of the run in dir for its page. Missing parts are left out.
func Of(dir string) (report.Report, error) {
	var r report.Report
	c, err := configuration(dir)
	if err != nil {
		return r, err
	}
	d := methods.Of(*c)
	r.Main, r.Series = d.Name, d.Series.WithPrivacy()
	r.Title, r.Subtitle = titles(dir, c)
	if r.Shortened = c.Provenance[inputs.ShortenedKey]; r.Shortened != "" {
		r.Subtitle += "; shortened: " + r.Shortened
	}
	r.Folder = filepath.Base(dir)
	r.Command = cmp.Or(c.Provenance["command"], again(dir, *c))
	r.Finished = time.Now().UTC().Truncate(time.Second)
	figures, err := rounds.ReadMetrics(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a published copy has none
		return r, err
	}
	finished := rundir.Complete(dir)
	state := len(figures)
	if chosen, ok := rounds.Best(figures, c.SelectsBy()); ok && finished {
		state = chosen.Round
		r.Notes = append(r.Notes, selected(chosen))
	}
	if r.Views, err = views(dir, len(figures), state); err != nil {
		return r, err
	}
	told, err := releaseNotes(rundir.Round(dir, 1))
	if err != nil {
		return r, err
	}
	r.Notes = append(r.Notes, told...)
	if url := c.Generate.Server(); url != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("A vLLM server drew the samples (generate.engine=vllm:%s). Each adapter had "+
			"to change its log-probabilities of prompts as it does in popri. Another run may draw other samples.", url))
	}
	stages, perRound, err := Shared(dir)
	if err != nil {
		return r, err
	}
	for _, m := range figures {
		r.Rounds = append(r.Rounds, report.Round{Figures: m, Selected: m.Number == state && finished,
			Seconds: perRound[m.Number]})
	}
	if err := addEnd(&r, dir, c, figures, perRound); err != nil {
		return r, err
	}
	facts, err := guarantee.ReadChosen(dir)
	if err != nil {
		return r, err
	}
	r.Privacy = privacy(facts, c)
	if r.Citation, err = citation(dir, r.Title, r.Command, c, d, facts.Record.Head()); err != nil {
		return r, err
	}
	if err := addEvaluation(&r, dir, c); err != nil {
		return r, err
	}
	if err := addSamples(&r, dir, c); err != nil {
		return r, err
	}
	if r.Texts, err = roundTexts(dir, c, d.Rounds(*c)); err != nil {
		return r, err
	}
	r.Stages, r.Settings = stages, settings(c)
	r.Versions = numeric.Map(slices.Sorted(maps.Keys(c.Provenance)),
		func(name string) report.Version { return report.Version{Name: name, Value: c.Provenance[name]} })
	return r, nil
}

// addEnd says how the rounds ended.
func addEnd(r *report.Report, dir string, c *configs.Config, figures []series.Round, seconds map[int]float64) error {
	planned := methods.Of(*c).Rounds(*c)
	done, err := rounds.Latest(dir)
	if err != nil {
		return err
	}
	var settled bool
	if r.Convergence, settled = convergence(*c, planned, figures, seconds); r.Convergence != "" {
		r.Notes = append(r.Notes, r.Convergence)
	}
	if done >= planned {
		return nil
	}
	why, err := endedBy(dir, done)
	if why != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("The rounds ended after %d of at most %d: %s.", done, planned, why))
	}
	finished := rundir.Complete(dir)
	if !finished || !settled && why == "" && rundir.Has(dir, rundir.Events) { // which a published copy has not
		r.Interrupted = fmt.Sprintf("after round %d of %d", done, planned)
		if finished {
			r.Interrupted += ": the budget covers no more"
		}
	}
	return err
}

// addEvaluation adds the figures of a run's evaluation, and which small model they are of, if there are any.
func addEvaluation(r *report.Report, dir string, c *configs.Config) error {
	e, err := evaluation.Read(dir)
	if e == nil {
		return err
	}
	addResults(r, e, methods.Of(*c))
	evaluated, err := e.Config(*c)
	if err != nil {
		return err
	}
	if small := smallModel(evaluated); small != "" {
		r.SmallModel = append(r.SmallModel, small)
	}
	if rundir.Has(dir, rundir.Small) {
		what := "that was trained on the synthetic set"
		if c.Learns() {
			what = "that the run publishes"
		}
		r.SmallModel = append(r.SmallModel, "The small model "+what+" is in the folder "+rundir.Small+
			". It runs with: "+Command(dir))
	}
	r.Notes = append(r.Notes, r.SmallModel...)
	return nil
}

// releaseNotes says what the first release told of the kinds and the form of texts.
func releaseNotes(round string) (notes []string, err error) {
	var kinds policy.Found
	var form policy.Form
	hasKinds, failed := atomicfile.ReadJSONIfAny(filepath.Join(round, rundir.Kinds), &kinds)
	hasForm, err := atomicfile.ReadJSONIfAny(filepath.Join(round, rundir.Form), &form)
	if hasKinds {
		notes = append(notes, "Kinds of text: "+kinds.String()+".")
	}
	if words := form.String(); hasForm && words != "" {
		notes = append(notes, "What the release shows of "+words+".")
	}
	return notes, cmp.Or(failed, err)
}

// settings are all keys with their values and defaults.
func settings(c *configs.Config) []report.Setting {
	standard := configs.Default()
	return numeric.Map(configs.Names(), func(key string) report.Setting {
		v, _ := c.Get(key)
		d, _ := standard.Get(key)
		return report.Setting{Key: key, Value: shownValue(key, v), Default: fmt.Sprint(d)}
	})
}

// Write writes report.html into the run's folder, and the card of its small model, and returns the report's path.
func Write(dir string) (string, error) {
	r, err := Of(dir)
	if err != nil {
		return "", err
	}
	if rundir.Has(dir, rundir.Small) {
		small, err := SmallCard(dir)
		if err == nil {
			err = datacard.WriteModelCard(dir, small, version.Program())
		}
		if err != nil {
			return "", err
		}
	}
	atomicfile.RemoveAbandoned(dir)
	path := filepath.Join(dir, rundir.Report)
	return path, report.Write(path, r)
}

// again is the command that makes a run with the same settings.
func again(dir string, c configs.Config) string {
	words := []string{"popri", "run", "--config", filepath.Join(dir, rundir.Config), "--out", filepath.Clean(dir) + "-again"}
	if len(c.Borrowed()) > 0 {
		words = append(words, "--allow-embedded")
	}
	return quote.Shell(words...)
}
