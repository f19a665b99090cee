package evolution

import (
	"popri/datasets"
	"popri/internal/numeric"
)

// Kind says how a text was made, and what a [Request] asks for.
type Kind string

const (
	Public   Kind = "public"   // drawn from the public texts
	Kept     Kind = "kept"     // the parent itself: selected under Aug-PE, or in place of an empty variation
	Rephrase Kind = "rephrase" // the parent, said in another style
	Blank    Kind = "blank"    // the parent with some words blanked, which a model that follows instructions fills in
	Fill     Kind = "fill"     // the parent with some words written again
	Expand   Kind = "expand"   // a text of the synthetic set; no sample of a population
)

// Sample is one text of a population.
type Sample struct {
	Text       string
	Parent     int    // its index in the population of the round before, in round 1 in the same; -1 for a public text
	Kind       Kind   // Public, Kept, Rephrase, Blank or Fill
	Generation int    // the number of variations between it and a public text
	Label      string // of its public text, with generate.by_label; variations keep it
}

// Population is the texts that clients vote on in a round.
type Population struct {
	Round   int // from 1
	Samples []Sample
}

// Texts returns the samples' texts in order.
func (p Population) Texts() []string {
	return numeric.Map(p.Samples, func(s Sample) string { return s.Text })
}

// quotable are the samples' texts with their labels.
func (p Population) quotable() []datasets.Text {
	return numeric.Map(p.Samples, func(s Sample) datasets.Text { return datasets.Text{Text: s.Text, Label: s.Label} })
}

// Row is a sample as stored, with its votes and selection.
type Row struct {
	Round      int64  `parquet:"round"`
	Sample     int64  `parquet:"sample_index"`
	Text       string `parquet:"text,zstd"`
	Parent     int64  `parquet:"parent_index"`
	Kind       string `parquet:"kind,dict"`
	Generation int64  `parquet:"generation"`
	// Copies is how often the round's votes selected the sample; 0 for all before the release.
	Copies int64 `parquet:"copies"`
	// Votes is the released count, noise included; 0 for all before the release.
	Votes float64 `parquet:"votes"`
	// Kept says that no count exceeded the threshold; the same in all rows.
	Kept  bool   `parquet:"kept"`
	Label string `parquet:"label,optional,dict"`
}

// rowsOf returns a round as rows; an empty selection means that none was made yet.
func rowsOf(r Round) []Row {
	out := make([]Row, len(r.Population.Samples))
	for i, s := range r.Population.Samples {
		out[i] = Row{Round: int64(r.Population.Round), Sample: int64(i), Text: s.Text, Parent: int64(s.Parent),
			Kind: string(s.Kind), Generation: int64(s.Generation), Kept: r.Selection.Kept, Label: s.Label}
		if len(r.Selection.Copies) > 0 {
			out[i].Copies = int64(r.Selection.Copies[i])
		}
	}
	return out
}

// fromRows returns a complete round from its rows.
func fromRows(round int, rows []Row) Round {
	r := Round{Population: Population{Round: round}}
	for _, row := range rows {
		r.Population.Samples = append(r.Population.Samples, Sample{Text: row.Text, Parent: int(row.Parent),
			Kind: Kind(row.Kind), Generation: int(row.Generation), Label: row.Label})
		r.Selection.Copies, r.Selection.Kept = append(r.Selection.Copies, int(row.Copies)), row.Kept
	}
	return r
}
