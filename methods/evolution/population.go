package evolution

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/datasets"
	"popri/internal/quote"
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
	out := make([]string, len(p.Samples))
	for i, s := range p.Samples {
		out[i] = s.Text
	}
	return out
}

// quotable are the samples' texts with their labels.
func (p Population) quotable() []datasets.Text {
	out := make([]datasets.Text, len(p.Samples))
	for i, s := range p.Samples {
		out[i] = datasets.Text{Text: s.Text, Label: s.Label}
	}
	return out
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

// rowsOf returns the population as rows; an empty selection means that none was made yet.
func rowsOf(p Population, s Selection) ([]Row, error) {
	if len(s.Copies) != 0 && len(s.Copies) != len(p.Samples) {
		return nil, fmt.Errorf("evolution: a selection of %d samples of %d", len(s.Copies), len(p.Samples))
	}
	out := make([]Row, len(p.Samples))
	for i, sample := range p.Samples {
		out[i] = Row{Round: int64(p.Round), Sample: int64(i), Text: sample.Text, Parent: int64(sample.Parent),
			Kind: string(sample.Kind), Generation: int64(sample.Generation), Kept: s.Kept, Label: sample.Label}
		if len(s.Copies) > 0 {
			out[i].Copies = int64(s.Copies[i])
		}
	}
	return out, nil
}

// ErrRows marks an error of rows that are not a population.
var ErrRows = errors.New("not a population")

const maxRows = 1 << 30 // far above every population, and safe to add up

// fromRows returns the population in rows, and its selection, which is empty if no row has copies. Rows that rowsOf
// cannot have written are an [ErrRows] that names the row.
func fromRows(rows []Row) (Population, Selection, error) {
	if len(rows) == 0 || len(rows) > maxRows {
		return Population{}, Selection{}, fmt.Errorf("evolution: %w: %d rows", ErrRows, len(rows))
	}
	p := Population{Round: int(rows[0].Round), Samples: make([]Sample, len(rows))}
	s := Selection{Copies: make([]int, len(rows)), Kept: rows[0].Kept}
	for i, r := range rows {
		if err := r.check(i, rows[0]); err != nil {
			return Population{}, Selection{}, fmt.Errorf("evolution: %w: row %d: %w", ErrRows, i, err)
		}
		p.Samples[i] = Sample{Text: r.Text, Parent: int(r.Parent), Kind: Kind(r.Kind), Generation: int(r.Generation),
			Label: r.Label}
		s.Copies[i] = int(r.Copies)
	}
	if s.Len() == 0 {
		if s.Kept {
			return Population{}, Selection{}, fmt.Errorf("evolution: %w: samples are kept, and none is selected",
				ErrRows)
		}
		s = Selection{}
	}
	return p, s, nil
}

// check compares a row with the row that belongs at index i of a population with the given first row.
func (r Row) check(i int, first Row) error {
	switch {
	case r.Sample != int64(i):
		return fmt.Errorf("sample_index is %d", r.Sample)
	case r.Round != first.Round || r.Round < 1 || r.Round > maxRows:
		return fmt.Errorf("round is %d", r.Round)
	case r.Kept != first.Kept:
		return fmt.Errorf("kept is %v, and %v in the first row", r.Kept, first.Kept)
	case r.Copies < 0 || r.Copies > maxRows:
		return fmt.Errorf("copies is %d", r.Copies)
	case r.Generation < 0 || r.Generation > maxRows:
		return fmt.Errorf("generation is %d", r.Generation)
	case !utf8.ValidString(r.Text) || strings.TrimSpace(r.Text) == "":
		return fmt.Errorf("text is empty or not UTF-8")
	case !slices.Contains([]Kind{Public, Kept, Rephrase, Blank, Fill}, Kind(r.Kind)):
		return quote.Errorf("kind is %q", r.Kind)
	case r.Parent < -1 || r.Parent > maxRows:
		return fmt.Errorf("parent_index is %d", r.Parent)
	case (r.Kind == string(Public)) != (r.Parent == -1):
		return fmt.Errorf("parent_index of a %s text is %d", r.Kind, r.Parent)
	case r.Kind == string(Public) && r.Generation != 0:
		return fmt.Errorf("generation of a public text is %d", r.Generation)
	}
	return nil
}
