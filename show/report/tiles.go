package report

import (
	"fmt"
	"slices"
)

// tiles are the figures at the top of the page.
func (p *page) tiles(r Report) {
	add := func(label, value, note string) { p.Tiles = append(p.Tiles, tile{label, value, note}) }
	switch v := r.Privacy; {
	case v.Epsilon > 0 && v.Protects:
		add("Privacy budget", "ε = "+roundedUp(v.Epsilon, 3), "δ = "+significant(v.Delta, 2))
	case v.Epsilon > 0:
		add("Privacy budget", "none", "this run protects nobody")
	}
	for _, row := range r.Results {
		if row.Key != r.Main {
			continue
		}
		if row.GapClosed != nil {
			note := "of the way from public to private data"
			if ci := interval(row.GapClosedCI, 0, 100); ci != "" {
				note = ci + thinSpace + "% · from public to private data"
			}
			add("Gap closed", percent(*row.GapClosed, 0), note)
		}
		if row.Accuracy != nil {
			note := "next-token accuracy"
			if row.MacroF1 != nil {
				note = "texts that get their label"
			}
			if i := slices.IndexFunc(r.Results, func(o Result) bool { return o.Key == KeyPublic && o.Accuracy != nil }); i >= 0 {
				note = percent(*r.Results[i].Accuracy, 1) + " without the clients"
			}
			add("Accuracy", percent(*row.Accuracy, 1), note)
		}
	}
	if r.Privacy.Clients > 0 {
		add("Train clients", count(r.Privacy.Clients), "a noised sum of vectors leaves them")
	}
	if r.Privacy.Planned > 0 || r.Privacy.Rounds > 0 {
		note := "one noised sum each"
		if r.Privacy.Rounds < r.Privacy.Planned {
			note = fmt.Sprintf("of %d planned", r.Privacy.Planned)
		}
		add("Releases", count(r.Privacy.Rounds), note)
	}
	if p.Total != "" {
		add("Time", p.Total, "without the clients' part")
	}
}

func (v Privacy) facts() (list []fact) {
	add := func(name, value string) { list = append(list, fact{name, value}) }
	if v.Epsilon > 0 {
		add("Budget", "ε = "+roundedUp(v.Epsilon, 4)+", δ = "+significant(v.Delta, 3))
	}
	if v.Spent > 0 && v.Protects {
		add("Spent", "ε = "+roundedUp(v.Spent, 4))
	}
	if v.NoiseMultiplier > 0 {
		add("Noise multiplier σ", significant(v.NoiseMultiplier, 4))
	}
	if v.ClipNorm > 0 {
		add("Clip norm", significant(v.ClipNorm, 4))
	}
	if v.Unit != "" {
		add("Privacy unit", v.Unit)
	}
	if v.Relation != "" {
		add("Neighbouring relation", v.Relation)
	}
	if v.Clients > 0 {
		add("Clients", count(v.Clients))
	}
	if v.Planned > 0 {
		add("Releases", fmt.Sprintf("%d of %d", v.Rounds, v.Planned))
	} else if v.Rounds > 0 {
		add("Releases", count(v.Rounds))
	}
	if v.Accountant != "" {
		add("Accountant", v.Accountant)
	}
	if v.Denoise != "" {
		add("Denoising after release", v.Denoise)
	}
	return list
}
