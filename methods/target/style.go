package target

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"popri/datasets"
	"popri/methods/method"
	"popri/methods/sampling"
	"popri/model/embedding"
)

// Style is a way to write any text: its name, "" for the text as it stands.
type Style string

// styles are all ways to write, and how a text is written so.
var styles = map[Style]func(string) string{
	"":                 func(text string) string { return text },
	"without capitals": strings.ToLower,
	"in capitals":      strings.ToUpper,
}

// Write writes a text in the style.
func (s Style) Write(text string) string { return styles[s](text) }

// Rows writes rows of a synthetic set in the style; their token ids stay those that the model wrote.
func (s Style) Rows(rows []sampling.Row) []sampling.Row {
	if s == "" {
		return rows
	}
	out := make([]sampling.Row, len(rows))
	for i, r := range rows {
		out[i], out[i].Text = r, s.Write(r.Text)
	}
	return out
}

// Form is what the release says of the form of the clients' texts.
type Form struct {
	Style      Style      `json:"style"`       // in which quotes and product are written
	LeastWords int        `json:"least_words"` // of a sample; 0 if the release has none
	Lines      bool       `json:"lines"`       // samples have line breaks
	Measures   []Measured `json:"measures"`    // as embedding.FormMeasures
}

// Measured is what the release says of a measure of form: its mean over the clients, with the standard deviation of the
// noise in it, and over the public texts.
type Measured struct {
	Name    string  `json:"name"`
	Clients float64 `json:"clients"`
	Noise   float64 `json:"noise"`
	Public  float64 `json:"public"`
	// Apart is the difference in typical deviations of a text.
	Apart float64 `json:"apart"`
}

// leastStyle is the fraction of the distance between the form of public texts and the clients' that a style must take
// away: capitals are 4 of the measures, and where nothing but these differs, it takes nearly all.
const leastStyle = 0.25

// styled reads the form of the clients' texts from the release. Where public texts come nearer to it in another style,
// they are written in it, and so is what they are made into.
func (t *Target) styled(e method.Env) *Target {
	form, ok := e.Encoder.(*embedding.Joined)
	if !ok || form.Form == 0 {
		return t
	}
	from, to := form.FormAt()
	public := form.Measured(t.Centre[from:to])
	possible := t.possible(form, public)
	floats.Scale(possible, t.Mean)
	t.Noise *= possible
	clients, noise := form.Measured(t.wanted()[from:to]), t.Noise/form.Unit()
	for i, m := range embedding.FormMeasures {
		t.Form.Measures = append(t.Form.Measures,
			Measured{m.Name, clients[i], noise * m.Std, public[i], (clients[i] - public[i]) / m.Std})
	}
	t.Form.LeastWords, t.Form.Lines = leastWords(t.Form.Measures), lines(t.Form.Measures)
	var best Style
	least := (1 - leastStyle) * t.formDistance(t.Vectors, from, to)
	pool := *t.Pool
	// Words take time, and no style changes them.
	alone := embedding.Joined{Encoder: form.Encoder, Form: form.Form}
	for _, style := range []Style{"without capitals", "in capitals"} { // in order, so that runs are alike
		texts := make([]datasets.Text, len(t.Pool.Texts))
		for i, x := range t.Pool.Texts {
			texts[i], texts[i].Text = x, style.Write(x.Text)
		}
		// The meaning is taken to be the same: encoders hardly see case, and a large pool takes minutes.
		vectors := alone.Join(datasets.Strings(texts), t.Pool.Vectors)
		if d := t.formDistance(vectors, from, to); d < least {
			best, least, pool.Texts = style, d, texts
		}
	}
	if best != "" {
		pool.Vectors = form.Join(datasets.Strings(pool.Texts), t.Pool.Vectors)
		t.Form.Style, t.Pool = best, &pool
	}
	return t
}

// farApart is by how many deviations of the noise a measure of the clients' texts must differ from the public texts' to
// show how long the mean can be.
const farApart = 10

// possible is the largest factor, at most 1, with which texts can have the estimated mean: no share of texts is below 0
// or above 1. The estimate's length rests on public texts, and clients who are far from them may vary less or more.
func (t *Target) possible(form *embedding.Joined, public []float64) float64 {
	factor := 1.0
	from, to := form.FormAt()
	for i, clients := range form.Measured(t.wanted()[from:to]) {
		m := embedding.FormMeasures[i]
		apart := clients - public[i]
		if math.Abs(apart) < farApart*t.Noise/form.Unit()*m.Std {
			continue
		}
		least, most := m.Range()
		if end := min(max(clients, least), most); end != clients {
			factor = min(factor, max(0, (end-public[i])/apart))
		}
	}
	return factor
}

// formDistance is the distance of texts' mean form, which has these values, from the clients'.
func (t *Target) formDistance(vectors embedding.Matrix, from, to int) float64 {
	return floats.Distance(t.wanted()[from:to], mean(vectors)[from:to], 2)
}

// few is the fraction of texts that may be shorter than the least length of samples.
const few = 0.1

// leastWords is the largest of embedding.ShortTexts of which few of the clients' texts fall short; 0 for none of them.
func leastWords(measures []Measured) (words int) {
	first := len(measures) - len(embedding.ShortTexts)
	for i, m := range measures[first:] {
		if m.Clients+2*m.Noise <= few {
			words = embedding.ShortTexts[i]
		}
	}
	return words
}

// fewLines is the number of line breaks a word above which texts are of several lines: one in a hundred words.
const fewLines = 0.01

// lines reports whether the clients' texts are of several lines.
func lines(measures []Measured) bool {
	i := slices.IndexFunc(measures, func(m Measured) bool { return m.Name == embedding.LineBreaks })
	return measures[i].Clients-2*measures[i].Noise > fewLines
}

// String says in what the form of the clients' texts differs most from the public texts'; "" where nothing does by more
// than the noise.
func (f Form) String() string {
	shown := func(v float64) float64 { return max(math.Round(v*1e6)/1e6, 0) } // without what float32 rounds
	order := func(a, b Measured) int { return cmp.Compare(math.Abs(b.Apart), math.Abs(a.Apart)) }
	var found []string
	for _, m := range slices.SortedStableFunc(slices.Values(f.Measures), order) {
		if len(found) < 4 && math.Abs(m.Apart) > 0.3 && math.Abs(m.Clients-m.Public) > 3*m.Noise {
			found = append(found, fmt.Sprintf("%s %.2g (public text %.2g)", m.Name, shown(m.Clients), shown(m.Public)))
		}
	}
	if len(found) == 0 {
		return ""
	}
	text := "the form of the clients' texts: " + strings.Join(found, ", ")
	if f.Lines {
		text += "; samples may have several lines"
	}
	if f.Style != "" {
		text += fmt.Sprintf("; quotes and product are written %s", f.Style)
	}
	return text
}
