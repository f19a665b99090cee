package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/quote"
)

//go:embed page.html
var pageSource string

// StyleSheet is the style of the pages, for other pages with parts of them.
//
//go:embed style.css
var StyleSheet string

var pages = template.Must(template.New("page").Funcs(template.FuncMap{"fixed": fixed, "percent": percent,
	"duration": Duration, "count": count, "counted": quote.Count, "sections": sectionsOf, "width": width, "divided": func(a, b float64) float64 { return a / b },
	"variable": func(i int) template.CSS { return template.CSS("var(" + seriesVariable(i) + ")") }}).Parse(pageSource))

// Write writes the page of a run at path in one step; the old page stays until then. If the run has very many texts,
// their browser becomes a page of its own next to it (see [TextsFile]).
func Write(path string, r Report) error { return write(path, r, maxEmbedded) }

func write(path string, r Report, limit int) error {
	p := newPage(r)
	if err := p.texts(path, r.Texts, limit); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return writePage(path, "run", p)
}

func writePage(path, name string, data any) error {
	err := atomicfile.Write(path, func(w io.Writer) error { return pages.ExecuteTemplate(w, name, data) })
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// page is the input of the template: words and numbers as they appear on the screen.
type page struct {
	Style  template.CSS
	Script script
	Report Report

	Headline  string
	Picture   picture
	Time      string   // that the run took, in all its stages
	Guarantee string   // in a paragraph
	Long      []string // the rest of it, a paragraph each

	Facts      []fact
	ResultHead []string // the figures that some result has
	Results    []resultRow
	HasDeciles bool
	Labelled   bool // small models give texts labels: macro F1 instead of perplexity
	HasTrack   bool

	Curves      []figure
	Views       []figure
	RoundHead   []string
	HasSelected bool
	Rounds      []roundRow
	SampleRows  int
	Texts       textsView
	Stages      []Stage
	Total       float64 // seconds of all stages
	Longest     float64 // seconds of a stage
}

type fact struct{ Name, Value string }

// resultRow is a row of the table of results.
type resultRow struct {
	Result
	Cells []cell
	Track track
}

// resultColumn is a figure of results: a column of a run's table, and a table of its own where runs are compared.
type resultColumn struct {
	head                 string
	caption, title, note string // of the table; no caption: there is none
	decimals             int
	share                bool // in per cent
	of                   func(Result) (*float64, *Interval)
}

var resultColumns = []resultColumn{
	{"Accuracy", "Accuracy of small models by what they were trained on", "", "Accuracy of next tokens, or of labels, on " +
		"private test clients, with its confidence interval. A run's product is the synthetic set that it publishes, as " +
		"said at the top. A – stands for a row that a run's evaluation does not have.", 2, true,
		func(r Result) (*float64, *Interval) { return r.Accuracy, r.AccuracyCI }},
	{"Gap closed", "Share of the gap between ε = 0 and ε = ∞ that is closed", "Share of the gap closed", "", 0, true,
		func(r Result) (*float64, *Interval) { return r.GapClosed, r.GapClosedCI }},
	{"Macro F1", "Macro F1 of small models", "Macro F1", "", 2, true,
		func(r Result) (*float64, *Interval) { return r.MacroF1, r.MacroF1CI }},
	{"Perplexity", "Perplexity of small models; less is better", "Perplexity", "", 2, false,
		func(r Result) (*float64, *Interval) { return r.Perplexity, r.PerplexityCI }},
	{"Bits a character", "Bits of a character; less is better", "Bits of a character",
		"Bits of a character compare small models of different vocabularies.", 3, false,
		func(r Result) (*float64, *Interval) { return r.Bits, r.BitsCI }},
	{"Keystrokes saved", "", "", "", 1, true, func(r Result) (*float64, *Interval) { return r.Saved, r.SavedCI }},
}

// cell is the figure of a result, with its interval.
func (c resultColumn) cell(r Result) cell {
	show, factor := fixed, 1.0
	if c.share {
		show, factor = percent, 100
	}
	v, ci := c.of(r)
	return cell{Text: show(value(v), c.decimals), Note: interval(ci, c.decimals, factor), value: value(v)}
}

type roundRow struct {
	Cells    []string
	Selected bool
}

// settingSection is a section of the settings, whose keys lack its name.
type settingSection struct {
	Name     string
	Changed  int
	Settings []Setting
}

func newPage(r Report) *page {
	r.readable()
	p := &page{Style: template.CSS(StyleSheet), Script: pageScript, Report: r}
	p.Report.Title = cmp.Or(r.Title, "POPri run")
	p.Facts = r.Privacy.facts()
	p.results(r.Results)
	p.rounds(r)
	p.views(r.Views)
	p.SampleRows = numeric.Greatest(r.Samples.Columns, func(c SampleColumn) int { return len(c.Texts) })
	p.stages(r.Stages)
	p.first(r)
	first := min(2, len(r.Privacy.Statement))
	p.Guarantee, p.Long = strings.Join(r.Privacy.Statement[:first], " "), r.Privacy.Statement[first:]
	return p
}

// results fills the table and the track, a scale of the accuracy, or else the perplexity, for all rows.
func (p *page) results(results []Result) {
	m := measureOf(results)
	place, ok := m.scale(results)
	p.HasTrack = ok
	p.Labelled = labelled(results)
	columns := slices.DeleteFunc(slices.Clone(resultColumns), func(c resultColumn) bool {
		return !slices.ContainsFunc(results, func(r Result) bool { return c.cell(r).Text != missing })
	})
	p.ResultHead = numeric.Map(columns, func(c resultColumn) string { return c.head })
	for _, r := range results {
		row := resultRow{Result: r, Cells: numeric.Map(columns, func(c resultColumn) cell { return c.cell(r) })}
		p.HasDeciles = p.HasDeciles || len(r.Deciles) > 0
		if ok {
			row.Track = m.track(r, place)
		}
		p.Results = append(p.Results, row)
	}
}

// Shows reports whether the table of results has a column.
func (p *page) Shows(head string) bool { return slices.Contains(p.ResultHead, head) }

func (p *page) stages(stages []Stage) {
	for _, s := range stages {
		if finite(s.Seconds) {
			p.Total, p.Longest = p.Total+s.Seconds, max(p.Longest, s.Seconds)
		}
	}
	if p.Total > 0 {
		p.Stages, p.Time = stages, Duration(p.Total)
	}
}

// width is the width of a bar, of the longest one's.
func width(seconds, longest float64) template.CSS {
	if !finite(seconds) {
		seconds = 0
	}
	return template.CSS(fmt.Sprintf("%.2f%%", 100*max(0, seconds)/longest))
}

// sectionsOf are settings by their section.
func sectionsOf(settings []Setting) (sections []settingSection) {
	for _, s := range settings {
		section, key, found := strings.Cut(s.Key, ".")
		if !found {
			section, key = "general", s.Key
		}
		i := slices.IndexFunc(sections, func(have settingSection) bool { return have.Name == section })
		if i < 0 {
			i, sections = len(sections), append(sections, settingSection{Name: section})
		}
		if s.Value != s.Default {
			sections[i].Changed++
		}
		sections[i].Settings = append(sections[i].Settings, Setting{key, s.Value, s.Default})
	}
	return sections
}

// facts are the table of the guarantee.
func (v Privacy) facts() (list []fact) {
	add := func(known bool, name, value string) {
		if known {
			list = append(list, fact{name, value})
		}
	}
	add(v.Epsilon > 0, "Budget", "ε = "+roundedUp(v.Epsilon, 4)+", δ = "+significant(v.Delta, 3))
	add(v.Spent > 0 && v.Protects, "Spent", "ε = "+roundedUp(v.Spent, 4))
	add(v.NoiseMultiplier > 0, "Noise multiplier σ", significant(v.NoiseMultiplier, 4))
	add(v.ClipNorm > 0, "Clip norm", significant(v.ClipNorm, 4))
	add(v.Unit != "", "Privacy unit", v.Unit)
	add(v.Relation != "", "Neighbouring relation", v.Relation)
	add(v.Clients > 0, "Clients", count(v.Clients))
	add(v.Planned > 0, "Releases", fmt.Sprintf("%d of %d", v.Rounds, v.Planned))
	add(v.Planned <= 0 && v.Rounds > 0, "Releases", count(v.Rounds))
	add(v.Accountant != "", "Accountant", v.Accountant)
	add(v.Denoise != "", "Denoising after release", v.Denoise)
	return list
}
