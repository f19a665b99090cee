package reporting

import (
	"errors"
	"io/fs"
	"path/filepath"

	"popri/configs"
	"popri/datasets"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/sampling"
	"popri/run/assembly"
	"popri/show/report"
)

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
