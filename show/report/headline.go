package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// measure is the figure by which a page compares texts: the accuracy or, where no result has one, the perplexity.
type measure struct {
	value    func(Result) float64
	interval func(Result) *Interval
	text     func(v float64, decimals int) string
	less     bool // is better
}

func measureOf(results []Result) measure {
	if slices.ContainsFunc(results, func(r Result) bool { return finite(value(r.Accuracy)) }) {
		return measure{func(r Result) float64 { return value(r.Accuracy) },
			func(r Result) *Interval { return r.AccuracyCI }, percent, false}
	}
	return measure{func(r Result) float64 { return value(r.Perplexity) },
		func(r Result) *Interval { return r.PerplexityCI }, fixed, true}
}

// find returns the result with a key, if it has the measure's figure.
func (m measure) find(results []Result, key string) (Result, bool) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Key == key && finite(m.value(r)) })
	if i < 0 {
		return Result{}, false
	}
	return results[i], true
}

// baseline is the best result besides the synthetic set's and the clients' own text's. What the tuned model wrote is a
// part of the synthetic set, and counts only where it is better by more than its interval.
func (m measure) baseline(results []Result, main string) (best Result, found bool) {
	product, measured := m.find(results, main)
	for _, r := range results {
		part := r.Key == keyWritten && measured && !m.above(r, product)
		if r.Key == main || r.Key == keyPrivate || r.Same || part || !finite(m.value(r)) {
			continue
		}
		if !found || m.better(r, best) {
			best, found = r, true
		}
	}
	return best, found
}

// above reports whether a is better than b by more than a's interval, if it has one.
func (m measure) above(a, b Result) bool {
	i := m.interval(a)
	return m.better(a, b) && (i == nil || m.value(b) < i[0] || m.value(b) > i[1])
}

func (m measure) better(a, b Result) bool {
	if m.less {
		return m.value(a) < m.value(b)
	}
	return m.value(a) > m.value(b)
}

// decimals are as few as tell the results apart.
func (m measure) decimals(results []Result) int {
	seen := map[string]float64{}
	for _, r := range results {
		text := m.text(m.value(r), 1)
		if v, ok := seen[text]; ok && v != m.value(r) {
			return 2
		}
		seen[text] = m.value(r)
	}
	return 1
}

func labelled(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.MacroF1 != nil })
}

// headline says what the synthetic set is worth, and which baseline is no worse. results are the picture's.
func headline(r Report, results []Result) string {
	m := measureOf(r.Results)
	product, has := m.find(results, r.Main)
	if len(results) == 0 {
		if r.Interrupted != "" {
			return "No result yet. The run was interrupted " + r.Interrupted + "."
		}
		if r.Learns {
			return "No result yet: the model that this run publishes was not tested. popri eval --run does that."
		}
		return "No result yet: no small model has been trained on this run's synthetic set. popri eval --run does that."
	}
	untrained, what, subject := "without further training", "after training on the synthetic set of this run", "The synthetic set"
	if r.Learns {
		what, subject = "as this run publishes it", "This model"
	}
	task := "A small model predicts %s of the next words in the test clients' texts"
	switch {
	case labelled(r.Results):
		task, untrained = "A small model gives %s of the test clients' texts their label",
			"after training on public text"
	case m.less:
		task = "A small model has a perplexity of %s on the test clients' texts (less is better)"
	}
	decimals := m.decimals(results)
	var clauses []string
	say := func(key, how string) {
		if x, ok := m.find(results, key); ok {
			figure := m.text(m.value(x), decimals)
			if len(clauses) == 0 {
				figure = fmt.Sprintf(task, figure)
			}
			clauses = append(clauses, figure+" "+how)
		}
	}
	say(keyPublic, untrained)
	say(r.Main, what)
	say(keyPrivate, "after training on the clients' own texts")
	if len(clauses) == 0 {
		return ""
	}
	text := enumerate(clauses) + "."
	best, found := m.baseline(results, r.Main)
	switch {
	case !has:
		return text + " " + subject + " itself was not measured."
	case !found:
		return text
	case best.Key == keyPublic && m.better(product, best):
		return text
	case m.better(product, best):
		return text + fmt.Sprintf(" The best baseline, “%s”, gives %s.", best.Name, m.text(m.value(best), decimals))
	case best.Key == keyPublic && labelled(r.Results):
		return text + " " + subject + " is no better than public text."
	case best.Key == keyPublic:
		return text + " This run did not help."
	}
	return text + fmt.Sprintf(" %s is no better than the baseline “%s”, which gives %s.", subject, best.Name,
		m.text(m.value(best), decimals))
}

func enumerate(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}

// pictured are the results of the picture at the top: without training, the best baseline, the synthetic set, the clients'
// own text.
func pictured(r Report) (list []Result) {
	m := measureOf(r.Results)
	add := func(x Result, ok bool) {
		if ok && !slices.ContainsFunc(list, func(y Result) bool { return y.Key == x.Key }) {
			list = append(list, x)
		}
	}
	add(m.find(r.Results, keyPublic))
	add(m.baseline(r.Results, r.Main))
	add(m.find(r.Results, r.Main))
	add(m.find(r.Results, keyPrivate))
	return list
}

// track is a result's position on a scale that all results share, in per cent of the width.
type track struct {
	HasDot, HasRange bool
	Dot, Left, Width template.CSS
	Label            string
}

// scale spans all figures and intervals of the results; ok is false if there are not two values.
func (m measure) scale(results []Result) (place func(v float64) float64, ok bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range results {
		values := []float64{m.value(r)}
		if i := m.interval(r); i != nil {
			values = append(values, i[0], i[1])
		}
		for _, v := range values {
			if finite(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	margin := (high - low) * 0.06
	low, high = low-margin, high+margin
	return func(v float64) float64 { return 100 * (v - low) / (high - low) }, high > low
}

// track puts a result on a scale.
func (m measure) track(r Result, place func(v float64) float64) (t track) {
	v := m.value(r)
	if !finite(v) {
		return t
	}
	css := func(v float64) template.CSS { return template.CSS(fmt.Sprintf("%.2f%%", v)) }
	t.HasDot, t.Dot, t.Label = true, css(place(v)), r.Name+": "+m.text(v, 2)
	if i := m.interval(r); i.finite() {
		t.HasRange, t.Left, t.Width = true, css(place(i[0])), css(max(0, place(i[1])-place(i[0])))
		t.Label += ", interval " + m.text(i[0], 2) + " to " + m.text(i[1], 2)
	}
	return t
}

// plainNames are what the picture calls the rows that the sentence speaks of.
func plainNames(r Report) map[string]string {
	public := "without further training (ε = 0)"
	if labelled(r.Results) {
		public = "public text (ε = 0)"
	}
	published := "the synthetic set of this run"
	if r.Learns {
		published = "the model of this run"
	}
	return map[string]string{keyPublic: public, r.Main: published,
		keyPrivate: "the clients' own texts (ε = ∞)"}
}

// picture shows results with their intervals on one scale.
type picture struct {
	Title     string
	Rows      []pictureRow
	Intervals bool // some result has one
}

type pictureRow struct {
	Name, Value, Interval string
	Main, Reference       bool
	Track                 track
}

// picture draws results under other names; those without one keep theirs. It has no rows if all figures are the same.
func (m measure) picture(title string, list []Result, main string, names map[string]string) picture {
	p := picture{Title: title}
	place, ok := m.scale(list)
	if !ok {
		return p
	}
	decimals := m.decimals(list)
	for _, x := range list {
		row := pictureRow{Name: cmp.Or(names[x.Key], x.Name), Value: m.text(m.value(x), decimals), Main: x.Key == main,
			Reference: x.Reference(), Track: m.track(x, place)}
		if i := m.interval(x); i.finite() {
			row.Interval = m.text(i[0], decimals) + " to " + m.text(i[1], decimals)
			p.Intervals = true
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// first fills the first screen.
func (p *page) first(r Report) {
	list := pictured(r)
	p.Headline = headline(r, list)
	title := "Share of the next words in the test clients' texts that a small model predicts, by what it was trained on"
	m := measureOf(r.Results)
	switch {
	case m.less:
		title = "Perplexity on the test clients' texts, by what a small model was trained on; less is better"
	case labelled(r.Results):
		title = "Share of the test clients' texts that a small model gives their label, by what it was trained on"
	}
	p.Picture = m.picture(title, list, r.Main, plainNames(r))
}
