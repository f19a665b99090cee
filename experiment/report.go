package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"popri/accountant/ledger"
	"popri/assembly"
	"popri/configs"
	"popri/datasets"
	"popri/downstream"
	"popri/guarantee"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/method"
	"popri/methods"
	"popri/report"
	"popri/run/evaluation"
	"popri/rundir"
	"popri/sampling"
	"popri/trainer"
)

// Report collects the contents of a run's folder for the page. Missing parts are left out.
func Report(dir string) (report.Report, error) {
	var r report.Report
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)})
	if errors.Is(err, fs.ErrNotExist) {
		return r, fault.Userf("%s holds no run: there is no %s", dir, rundir.Config)
	}
	if err != nil {
		return r, err
	}
	d := methods.Of(*c)
	r.Main, r.Series = d.Name, d.Series.WithPrivacy()
	r.Title, r.Subtitle = titles(dir, c)
	r.Command = "popri run --config " + filepath.Join(dir, rundir.Config)
	if cmd := c.Provenance["command"]; cmd != "" {
		r.Command = cmd
	}
	r.Finished = time.Now().UTC().Truncate(time.Second)
	rounds, err := trainer.ReadMetrics(dir)
	if err != nil {
		return r, err
	}
	finished := exists(filepath.Join(dir, rundir.Synthetic))
	state := len(rounds)
	if chosen, ok := trainer.Nearest(rounds); ok && finished && c.Trainer.Select == "distance" {
		state = chosen.Round
		r.Notes = append(r.Notes, nearest(chosen))
	}
	r.Notes = append(r.Notes, engineNotes(*c)...)
	for _, m := range rounds {
		r.Rounds = append(r.Rounds, report.Round{Figures: m, Selected: m.Number == state && finished})
	}
	if len(rounds) < d.RoundsOf(*c) {
		r.Interrupted = fmt.Sprintf("after round %d of %d", len(rounds), d.RoundsOf(*c))
		if finished {
			r.Interrupted += ": the budget covers no more"
		}
	}
	facts, err := guarantee.Read(dir)
	if err != nil {
		return r, err
	}
	r.Privacy = privacy(facts, c)
	if r.Citation, err = citation(dir, r.Title, r.Command, c, d, facts.Record.Head()); err != nil {
		return r, err
	}
	e, err := evaluation.Read(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return r, err
	default:
		addResults(&r, e, d)
		if small := smallModel(*c); small != "" {
			r.Notes = append(r.Notes, small)
		}
	}
	if err := addSamples(&r, dir, c); err != nil {
		return r, err
	}
	if r.Texts, err = roundTexts(dir, c, d.RoundsOf(*c)); err != nil {
		return r, err
	}
	stages, perRound, err := Stages(dir)
	for i := range r.Rounds {
		r.Rounds[i].Seconds = perRound[r.Rounds[i].Figures.Number]
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	r.Stages = stages
	standard := configs.Default()
	for _, k := range configs.Keys() {
		v, _ := c.Get(k.Name)
		d, _ := standard.Get(k.Name)
		r.Settings = append(r.Settings, report.Setting{Key: k.Name, Value: shownValue(k.Name, v), Default: fmt.Sprint(d)})
	}
	for k, v := range c.Provenance {
		r.Versions = append(r.Versions, report.Version{Name: k, Value: v})
	}
	sort.Slice(r.Versions, func(a, b int) bool { return r.Versions[a].Name < r.Versions[b].Name })
	return r, nil
}

// accountants are the names that the report uses.
var accountants = map[string]string{"exact": "exact Gaussian (Balle and Wang 2018)",
	"pld": "privacy loss distribution (pessimistic, by FFT)"}

// privacy is the report's section about the guarantee.
func privacy(f guarantee.Facts, c *configs.Config) report.Privacy {
	b := f.Record.Budget
	own, _ := f.Releases()
	d := methods.Of(*c)
	_, bound := d.Query(*c)
	p := report.Privacy{Epsilon: b.Epsilon, Delta: b.Delta, Spent: f.Spent, Protects: f.Protects(), Unit: b.Unit,
		Clients: b.Clients, Rounds: own, Planned: d.ReleasesOf(*c), ClipNorm: bound,
		Accountant: accountants[ledger.Accountant(b, f.Record.Entries).Name()], Relation: string(b.Relation),
		Statement: f.Statement(), Warnings: f.Warnings()}
	if n := len(f.Record.Entries); n > 0 {
		p.NoiseMultiplier = f.Record.Entries[n-1].Sigma
	}
	if d.Denoise != nil {
		p.Denoise = d.Denoise(*c)
	}
	if own > 0 && d.Notes != nil {
		p.Statement = append(p.Statement, d.Notes(*c)...)
	}
	return p
}

// nearest says which adapters wrote the product.
func nearest(s trainer.Selection) string {
	adapters := fmt.Sprintf("the adapters after round %d", s.Round)
	if s.Round == 0 {
		adapters = "the adapters before the first update of the rounds"
	}
	return fmt.Sprintf("The model's part of the product was written with %s: of all rounds, their samples had the least released "+
		"distance from the clients' mean embedding, %.4f (trainer.select=distance). The distance follows from the release and "+
		"costs no privacy.", adapters, s.Distance)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// addResults fills the table and compares the method with each comparator in words.
func addResults(r *report.Report, e *evaluation.Outcome, d method.Description) {
	notes := map[string]string{
		"public": "the small model before fine-tuning", evaluation.KeyUntuned: d.Untuned,
		evaluation.KeyUntunedWeighted: "the release's weights without training",
		evaluation.KeyWritten:         "without public texts", evaluation.KeySelected: "without the model's texts",
		evaluation.KeyInDomain: "public files of the same trees; in practice nobody has such text",
		"private":              "no privacy: the upper bound"}
	if e.Classifies() {
		notes["public"] = "data.public with its own labels"
	}
	if all := e.Result(evaluation.KeyPublicAll); all != nil {
		notes[evaluation.KeyPublicAll] = "data.public"
		if strings.HasSuffix(all.Name, evaluation.SeenSuffix) {
			notes[evaluation.KeyPublicAll] = "what the generator was trained on"
		}
	}
	var product, others = e.Result(d.Name), []string{}
	for _, x := range e.Results {
		row := report.Result{Key: x.Key, Name: x.Name, Note: notes[x.Key], Accuracy: new(x.Accuracy),
			AccuracyCI: reported(x.AccuracyCI), PerplexityCI: reported(x.PerplexityCI), MacroF1: x.MacroF1,
			MacroF1CI: reported(x.MacroF1CI), GapClosed: x.GapClosed, GapClosedCI: reported(x.GapClosedCI)}
		if !e.Classifies() {
			row.Perplexity = new(x.Perplexity)
		}
		r.Results = append(r.Results, row)
		if product != nil && x.Key != d.Name && x.Key != "private" && x.Accuracy >= product.Accuracy {
			others = append(others, fmt.Sprintf("%s (%.2f %%)", x.Name, 100*x.Accuracy))
		}
	}
	r.Notes = append(r.Notes, measuredFigures(e))
	r.Notes = append(r.Notes, e.Notes...)
	if !e.HasReference() {
		r.Notes = append(r.Notes, "The table has no row ε = ∞ and no share of the gap closed: both are exact "+
			"functions of the train clients' texts. Where these are public or test data, "+
			"eval.reference_private=true shows them.")
	}
	r.Verdict = e.Verdict()
	if e.PublicDistance != nil {
		r.Notes = append(r.Notes, e.PublicDistance.String())
	}
	for i, o := range others {
		if i == 0 {
			r.Notes = append(r.Notes, d.Title+"'s text does not beat everything here:")
		}
		r.Notes = append(r.Notes, "It is no better than "+o+fmt.Sprintf("; %s has %.2f %%.", d.Title, 100*product.Accuracy))
	}
}

func reported(i *downstream.Interval) *report.Interval {
	if i == nil {
		return nil
	}
	return &report.Interval{Low: i[0], High: i[1]}
}

// addSamples puts texts before and after the tuning beside real public texts.
func addSamples(r *report.Report, dir string, c *configs.Config) error {
	const n = 8
	columns := []struct{ name, file, note string }{
		{"Before", rundir.Untuned, "the generator as it comes"},
		{"After", rundir.Synthetic, methods.Of(*c).Product},
	}
	for _, col := range columns {
		stored, err := rows.Read[sampling.Row](filepath.Join(dir, col.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		r.Samples.Columns = append(r.Samples.Columns, report.SampleColumn{Name: col.name, Note: col.note,
			Texts: pick(sampling.Texts(stored), n)})
	}
	if c.Data.Private == "godoc" && len(r.Samples.Columns) > 0 {
		g, err := assembly.Embedded()
		if err != nil {
			return err
		}
		r.Samples.Columns = append(r.Samples.Columns,
			report.SampleColumn{Name: "Real", Note: "public texts of the clients' domain",
				Texts: pick(datasets.Strings(g.Public.InDomain), n)})
		note := "The prompts' corpus Ω is the standard library without runtime, go/, internal, reflect, debug and simd. It " +
			"was chosen so that the small model does not know the clients' domain beforehand"
		if c.Data.Public == "godoc" {
			note += ", while the generator has seen public files of it: what the method can give is to bring that " +
				"knowledge out"
		}
		r.Notes = append(r.Notes, note+".")
		if note := unseen(*c); note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	return nil
}

func pick(texts []string, n int) []string {
	random := rng.New(1, "report", "samples")
	var out []string
	for _, i := range random.Perm(len(texts))[:min(n, len(texts))] {
		out = append(out, texts[i])
	}
	return out
}

// WriteReport writes report.html into the run's folder and returns its path.
func WriteReport(dir string) (string, error) {
	r, err := Report(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, rundir.Report)
	return path, report.Write(path, r)
}

// measuredFigures says in words what the figures are.
func measuredFigures(e *evaluation.Outcome) string {
	if e.Classifies() {
		return fmt.Sprintf("Accuracy is the share of texts of %d private test clients that get their own of %d labels; macro F1 is the "+
			"mean of the labels' F1, in which a rare label counts as much as a frequent one. Intervals are 95 %% bootstrap intervals "+
			"over clients. Every model starts from the same weights with the same new head, unless downstream.model has a trained one, "+
			"and %s, in the same way for all. A written text has the label of the public texts that its prompt quoted; nothing checks "+
			"that it fits.", e.Clients, e.Labels, e.Protocol)
	}
	return fmt.Sprintf("Accuracy is the share of next tokens predicted exactly, over all tokens of %d private test "+
		"clients; intervals are 95 %% bootstrap intervals over clients. Every model starts from the ε = 0 weights "+
		"and %s, in the same way for all.", e.Clients, e.Protocol)
}

// unseen says what the generator knows of the clients' domain that data.public lacks; "" for nothing.
func unseen(c configs.Config) string {
	if c.Model.Path == "embedded" && c.Data.Public == "godoc-without-domain" {
		return fmt.Sprintf("The embedded generator was trained on all public text, the public files of the clients' own "+
			"folders included, which data.public=%s leaves out of prompts and pool. --world %[1]s trains a generator "+
			"without them.", c.Data.Public)
	}
	return ""
}
