package reporting

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"popri/eval/downstream"
	"popri/internal/hub"
	"popri/internal/modelcache"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/methods"
	"popri/model/mixture"
	"popri/model/shipped"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/show/datacard"
)

// SmallCard is what the card of a run's small model says; empty for a run without one.
func SmallCard(dir string) (s datacard.Small, err error) {
	if !rundir.Has(dir, rundir.Small) {
		return s, nil
	}
	config, err := configuration(dir)
	if err != nil {
		return s, err
	}
	e, err := evaluation.Read(dir)
	if err != nil {
		return s, err
	}
	c := *config
	d := methods.Of(c)
	if c.Learns() {
		s.About = []string{"It is the small model of the run " + filepath.Base(dir) + ", " + d.Product + "."}
		if mixture.Has(filepath.Join(dir, rundir.Small)) {
			s.About = append(s.About, "The table in "+mixture.File+" is a part of it: the figures below are with the table mixed "+
				"in, and transformers loads the model without it.")
		}
	} else {
		s.About = []string{"It was trained on the synthetic set of the run " + filepath.Base(dir) + ", " + d.Product +
			", and on nothing else of the clients."}
	}
	if e != nil {
		if c, err = e.Config(c); err != nil {
			return s, err
		}
		if e.Classifies() {
			s.Pipeline = "text-classification"
		}
		results(&s, e, d.Name)
	}
	s.Base, s.License = origin(c.Downstream.Model)
	if about := smallModel(c); about != "" {
		s.About = append(s.About, strings.Replace(about, "The small model has", "It has", 1))
	}
	return s, nil
}

// Command is the command with which the small model of a run runs.
func Command(dir string) string {
	folder := filepath.Join(dir, rundir.Small)
	if mixture.Has(folder) {
		return quote.Shell("popri", "try", dir)
	}
	return quote.Shell("popri", "generate", "--model", folder, "--prompt", "I")
}

// results adds the rows of ε = 0 and of the synthetic set, and how the step was chosen.
func results(s *datacard.Small, e *evaluation.Outcome, product string) {
	for _, key := range []string{downstream.Public, product} {
		x := e.Result(key)
		if x == nil {
			continue
		}
		row := datacard.SmallResult{Name: x.Name, Accuracy: fmt.Sprintf("%.2f", 100*x.Accuracy), Perplexity: "–", Bits: "–"}
		if i := x.AccuracyCI; i != nil {
			row.Accuracy += fmt.Sprintf(" (%.2f to %.2f)", 100*i[0], 100*i[1])
		}
		if !e.Classifies() {
			row.Perplexity = fmt.Sprintf("%.1f", x.Perplexity)
		}
		if x.Bits != nil {
			row.Bits = fmt.Sprintf("%.3f", *x.Bits)
		}
		s.Results = append(s.Results, row)
	}
	s.About = append(s.About, fmt.Sprintf("Every model of the comparison %s. Validation clients are not protected.",
		e.Protocol))
}

// origin is the name on the hub and the licence of the model that training began with, as far as they are known.
func origin(path string) (name, license string) {
	if s, ok := modelcache.Find(path); ok {
		return s.Hub, s.License
	}
	dir, err := assembly.ModelDir(path, shipped.Device)
	if err != nil {
		return "", ""
	}
	card, _ := hub.Card(dir)                                               // somebody's, of which nothing but names is taken
	if _, err := os.Stat(path); err != nil && hub.CheckName(path) == nil { // a folder of that name would go first
		name = path
	}
	base, _ := card["base_model"].(string)
	license, _ = card["license"].(string)
	return cmp.Or(name, base), license
}
