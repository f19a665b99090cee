package reporting

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/sampling"
	"popri/run/assembly"
	"popri/run/evaluator"
	"popri/show/report"
)

// addSamples puts texts before and after the tuning next to real public texts.
func addSamples(r *report.Report, dir string, c *configs.Config) error {
	const n = 8
	add := func(name, note string, texts []string) {
		if len(texts) > 0 {
			drawn := rng.New(1, "report", "samples").Perm(len(texts))[:min(n, len(texts))]
			r.Samples.Columns = append(r.Samples.Columns,
				report.SampleColumn{Name: name, Note: note, Texts: numeric.Pick(texts, drawn)})
		}
	}
	before, failed := rows.Optional[sampling.Row](filepath.Join(dir, rundir.Untuned))
	product, err := rows.Optional[sampling.Row](filepath.Join(dir, rundir.Synthetic))
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	add("Before", "the generator as it comes", sampling.Texts(before))
	chosen, own := evaluator.Parts(product)
	text := func(r sampling.Row) string { return r.Text } // also an empty one
	written, public := numeric.Map(own, text), numeric.Map(chosen, text)
	if r.Product, r.Learns = productWords(len(written), len(public)), c.Learns(); r.Learns {
		r.Product = "The run publishes the model in the folder " + rundir.Small + ": the small model, " +
			methods.Of(*c).Product + "."
	}
	share := ""
	if len(written) > 0 && len(public) > 0 {
		share = fmt.Sprintf("; %d of the synthetic set's %d rows", len(written), len(product))
	}
	add("After", methods.Of(*c).Product+share, written)
	add("Chosen", fmt.Sprintf("public texts, word for word, capitals aside, that the clients' noised answer chose; %d of "+
		"the synthetic set's %d rows", len(public), len(product)), public)
	if c.Data.Private == "godoc" && len(r.Samples.Columns) > 0 {
		g, err := assembly.Embedded()
		if err != nil {
			return err
		}
		add("Real", "public texts of the clients' domain", datasets.Strings(g.Public.InDomain))
		note := "The prompts' corpus Ω is the standard library without runtime, go/, internal, reflect, debug and " +
			"simd. It was chosen so that the small model does not know the clients' domain beforehand"
		if c.Data.Public == "godoc" {
			note += ", while the generator has seen public files of it: what the method can add is to draw that " +
				"knowledge out"
		}
		r.Notes = append(r.Notes, note+".")
		if c.Model.Path == "embedded" && c.Data.Public == "godoc-without-domain" {
			r.Notes = append(r.Notes, fmt.Sprintf("The embedded generator was trained on all public text, the public files "+
				"of the clients' own folders included, which data.public=%s leaves out of prompts and pool. --world %[1]s "+
				"trains a generator without them.", c.Data.Public))
		}
	}
	return nil
}

// productWords says what a run's product is.
func productWords(written, public int) string {
	var parts []string
	if written > 0 {
		parts = append(parts, fmt.Sprintf("%d texts that the model wrote", written))
	}
	if public > 0 {
		parts = append(parts, fmt.Sprintf("%d public texts that the clients' noised answer chose", public))
	}
	if len(parts) == 0 {
		return "The run publishes a synthetic set, which is not written yet."
	}
	return "The run publishes a synthetic set: " + strings.Join(parts, " and ") + "."
}
