package report

import (
	"time"

	"popri/show/series"
)

// Report is the content of a page. Zero values and nil pointers mean "not known"; the page leaves them out or says that
// they are missing. It can be stored as JSON and shown again.
type Report struct {
	Title    string `json:"title"`
	Folder   string `json:"folder,omitempty"` // the name of the run's, which distinguishes runs of one title
	Subtitle string `json:"subtitle,omitempty"`
	Command  string `json:"command,omitempty"` // what made the run, to be typed again
	// Shortened says what was left out of the run so that it takes less time; it stands in the subtitle, too.
	Shortened string    `json:"shortened,omitempty"`
	Finished  time.Time `json:"finished,omitzero"`
	// Interrupted says where an unfinished run stopped ("after round 2 of 3"); empty for a complete one.
	Interrupted string `json:"interrupted,omitempty"`

	Privacy Privacy  `json:"privacy"`
	Results []Result `json:"results,omitempty"`
	Typed   []Typed  `json:"typed,omitempty"`
	// Verdict says who won, by how much, and whether it could be chance. It stands below the first picture.
	Verdict string `json:"verdict,omitempty"`
	// Product says what the run publishes, when the page first mentions it. Learns: that is a model, and no text.
	Product string   `json:"product,omitempty"`
	Learns  bool     `json:"learns,omitempty"`
	Notes   []string `json:"notes,omitempty"` // what a reader must know to judge the results, a paragraph each
	// SmallModel says of which small model the figures are and where the trained one is, a paragraph each; notes, too.
	SmallModel []string `json:"small_model,omitempty"`
	// Convergence says whether the rounds went on as long as they helped; one of the notes.
	Convergence string `json:"convergence,omitempty"`
	// Main is the key of the result that the run is about.
	Main     string     `json:"main,omitempty"`
	Series   series.Set `json:"series"` // which figures of the rounds are shown, and how
	Rounds   []Round    `json:"rounds,omitempty"`
	Views    []View     `json:"views,omitempty"`
	Samples  Samples    `json:"samples"`
	Texts    Texts      `json:"texts,omitzero"`
	Stages   []Stage    `json:"stages,omitempty"`
	Settings []Setting  `json:"settings,omitempty"`
	Versions []Version  `json:"versions,omitempty"`
	// Citation is what a paper quotes of the run, as BibTeX; "" for none.
	Citation string `json:"citation,omitempty"`
}

// Privacy is the guarantee with its facts. Package guarantee makes its sentences.
type Privacy struct {
	Epsilon float64 `json:"epsilon"` // the budget
	Delta   float64 `json:"delta"`
	Spent   float64 `json:"spent"` // the ε of what was released so far, 0 before the first release
	// Spending says in a sentence how much of the budget was spent, by what.
	Spending string `json:"spending,omitempty"`
	// Protects is false if the noise is not secret or gives no bound: ε then protects nobody.
	Protects        bool    `json:"protects"`
	Unit            string  `json:"unit,omitempty"`     // who is protected
	Relation        string  `json:"relation,omitempty"` // which data sets are neighbours
	NoiseMultiplier float64 `json:"noise_multiplier"`
	ClipNorm        float64 `json:"clip_norm,omitempty"`
	Rounds          int     `json:"rounds"`  // released so far
	Planned         int     `json:"planned"` // rounds in all
	Clients         int     `json:"clients"`
	Accountant      string  `json:"accountant,omitempty"`
	Denoise         string  `json:"denoise,omitempty"` // scoring.denoise

	Statement []string `json:"statement,omitempty"` // what is guaranteed, a paragraph each
	Warnings  []string `json:"warnings,omitempty"`  // who or what is outside of the guarantee, at the top of the page
}

// Interval is a confidence interval.
type Interval [2]float64

// Result is one row of the table of results.
type Result struct {
	// Key identifies a row across runs. "public" is the ε = 0 point, "private" the ε = ∞ point, [Report.Main] the
	// method.
	Key  string `json:"key"`
	Name string `json:"name"`
	Note string `json:"note,omitempty"`
	// Accuracy and GapClosed are fractions (0.215 is shown as 21.5 %); GapClosed is (accuracy − ε=0) / (ε=∞ − ε=0).
	Accuracy     *float64  `json:"accuracy,omitempty"`
	AccuracyCI   *Interval `json:"accuracy_ci,omitempty"`
	Perplexity   *float64  `json:"perplexity,omitempty"`
	PerplexityCI *Interval `json:"perplexity_ci,omitempty"`
	// Bits are per character, and Saved is the fraction of keystrokes that a keyboard's suggestions save. Deciles are
	// the perplexities of tenths of the clients, ordered by their perplexity at ε = 0.
	Bits    *float64  `json:"bits_per_character,omitempty"`
	BitsCI  *Interval `json:"bits_per_character_ci,omitempty"`
	Saved   *float64  `json:"keystrokes_saved,omitempty"`
	SavedCI *Interval `json:"keystrokes_saved_ci,omitempty"`
	Deciles []float64 `json:"perplexity_by_decile,omitempty"`
	Same    bool      `json:"same,omitempty"` // the texts are the synthetic set's, so that the row is no baseline
	// MacroF1 replaces the perplexity where small models give texts labels.
	MacroF1     *float64  `json:"macro_f1,omitempty"`
	MacroF1CI   *Interval `json:"macro_f1_ci,omitempty"`
	GapClosed   *float64  `json:"gap_closed,omitempty"`
	GapClosedCI *Interval `json:"gap_closed_ci,omitempty"`
}

// Reference reports whether the row is an end of the gap: ε = 0 or ε = ∞.
func (r Result) Reference() bool { return r.Key == keyPublic || r.Key == keyPrivate }

// Typed is the beginning of a text, and the words that the small model suggests before and after its training.
type Typed struct {
	Text          string
	Before, After []string
}

// Keys of results that the page treats specially.
const (
	keyPublic  = "public"
	keyPrivate = "private"
	keyWritten = "written" // what the tuned model wrote, a part of the synthetic set
)

// View shows where the samples of a round are, in a plane whose origin is the mean of the validation texts.
type View struct {
	Round     int          `json:"round"`
	Points    [][2]float64 `json:"points"`
	Reference [2]float64   `json:"reference_sd"` // the validation texts' standard deviation along each axis
}

// Round is the record of a round.
type Round struct {
	Figures  series.Round `json:"figures"`
	Seconds  float64      `json:"seconds,omitempty"`
	Selected bool         `json:"selected,omitempty"` // the round whose state wrote the synthetic set
}

// Samples holds columns of texts side by side, such as texts of the untuned model, texts of the tuned one and real
// public ones. Row i of all columns belongs together.
type Samples struct {
	Columns []SampleColumn `json:"columns,omitempty"`
}

// SampleColumn is a heading and its texts.
type SampleColumn struct {
	Name  string   `json:"name"`
	Note  string   `json:"note,omitempty"`
	Texts []string `json:"texts"`
}

// Stage is the time of a part of the run. It has no memory: that depends on the clients' texts.
type Stage struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Setting is one key of the configuration with its default; settings that differ from it are marked.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

// Version names a part of the program or a file with its version or hash.
type Version struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
