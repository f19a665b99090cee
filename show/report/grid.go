package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"popri/internal/numeric"
	"popri/show/texts"
)

//go:embed grid.html
var gridSource string

//go:embed grid.css
var gridStyle string

//go:embed grid_plots.js
var gridPlots string

//go:embed grid.js
var gridExplorer string

var gridScript = newScript(SaveScript + gridPlots + gridExplorer)

func init() { template.Must(pages.Parse(gridSource)) }

// Grid is the content of an ablation's page: runs by the values of one axis or more, and by seeds.
type Grid struct {
	Title, Subtitle, Command string
	Finished                 time.Time
	Statement                []string // what is guaranteed, a paragraph each
	Warnings                 []string // who or what is outside of the guarantee
	Together                 string   // what all runs spend, in a few words; "" if there is no one figure
	Composed                 []string // the same in sentences, one for each private data set
	Notes                    []string
	Axes                     []GridAxis
	Seeds                    []uint64
	Figures                  []GridFigure // the first is shown first
	Choice                   string       // the key of the figure by which a combination is chosen
	Cells                    []GridCell   // each combination of values, also one without a result
	Rungs                    *GridRungs   // nil for a plain order
	Settings                 []Setting
	Versions                 []Version
}

// GridAxis is a key with its values.
type GridAxis struct {
	Key     string    `json:"key"`
	Values  []string  `json:"values"`
	Numbers []float64 `json:"numbers,omitempty"` // the values, if all are numbers
	Changes bool      `json:"-"`                 // the values are changes, which name their own keys
}

// GridFigure is a figure of each run.
type GridFigure struct {
	Key      string  `json:"key"`
	Name     string  `json:"name"`
	Unit     string  `json:"unit,omitempty"`
	Scale    float64 `json:"scale"` // of the shown number
	Decimals int     `json:"decimals"`
	Better   int     `json:"better"`          // 1 if more is better, −1 if less is, 0 if neither
	Bound    bool    `json:"bound,omitempty"` // an upper bound: it is rounded up
}

// GridCell is a combination of values.
type GridCell struct {
	At      []int     `json:"at"` // the number of its value, for each axis
	Default bool      `json:"default,omitempty"`
	Runs    []GridRun `json:"runs"` // one for each seed
}

// GridRun is a run of a combination.
type GridRun struct {
	Seed    uint64             `json:"seed"`
	Name    string             `json:"name"`           // of its folder
	Report  bool               `json:"report"`         // the folder has a report
	Figures map[string]float64 `json:"figures"`        // those that are known
	Error   string             `json:"error"`          // of a run that failed
	Left    string             `json:"left,omitempty"` // why it did not go to its end, of a run that was dropped
}

// GridRungs says which combinations an adaptive order let continue, and why.
type GridRungs struct {
	Figure string // what it judged by
	Heads  []string
	Rows   []GridRungRow
}

// GridRungRow is a combination with a figure for each rung that it reached.
type GridRungRow struct {
	Name    string
	Cells   []string
	Outcome string
	Went    bool // to the end
}

// WriteGrid writes the page of an ablation.
func WriteGrid(path string, g Grid) error {
	return writePage(path, "grid", newGridPage(g))
}

// gridPage is the input of the template.
type gridPage struct {
	Style    template.CSS
	Script   script
	Grid     Grid
	Headline string
	Runs     int
	Failed   int // of the runs
	Data     gridData
	Head     []string
	Rows     []gridRow
	Paired   string // the figure of which rows have a difference to the default; "" for none
	Figure   figure // without JavaScript
}

// gridData is what the page's script reads.
type gridData struct {
	Axes    []GridAxis   `json:"axes"`
	Seeds   []uint64     `json:"seeds"`
	Figures []GridFigure `json:"figures"`
	Cells   []GridCell   `json:"cells"`
	// Half are half the widths of the 95 % interval of a mean of n figures, in standard deviations; by n.
	Half []float64 `json:"half"`
}

// gridRow is a row of the table of all combinations.
type gridRow struct {
	Values        []string
	Cells         []cell
	Against       string
	Runs          []GridRun
	Default, Best bool
}

func newGridPage(g Grid) *gridPage {
	g = g.visible()
	p := &gridPage{Style: template.CSS(StyleSheet + gridStyle), Script: gridScript, Grid: g,
		Data: gridData{g.Axes, g.Seeds, g.Figures, g.Cells, halfWidths(len(g.Seeds))}}
	for _, c := range g.Cells {
		p.Runs += len(c.Runs)
		p.Failed += len(numeric.Where(len(c.Runs), func(i int) bool { return c.Runs[i].Error != "" }))
	}
	p.table()
	p.draw()
	p.Headline = p.headline()
	return p
}

// linkable are the names of folders that a link can lead to as they are. Names of runs' folders are made so.
var linkable = regexp.MustCompile(`^[A-Za-z0-9_=,+-][A-Za-z0-9._=,+-]*$`)

// visible returns the grid with texts that are safe to show, and without links to folders of odd names.
func (g Grid) visible() Grid {
	const shownText = 400
	show := func(text string) string { return texts.Visible(text, shownText) }
	all := func(list []string, limit int) []string {
		return numeric.Map(list, func(text string) string { return texts.Visible(text, limit) })
	}
	g.Title, g.Subtitle, g.Command, g.Together = show(g.Title), show(g.Subtitle), show(g.Command), show(g.Together)
	for _, list := range []*[]string{&g.Notes, &g.Composed, &g.Statement, &g.Warnings} {
		*list = all(*list, 0)
	}
	if g.Rungs != nil {
		r := *g.Rungs
		r.Rows = numeric.Map(r.Rows, func(row GridRungRow) GridRungRow {
			row.Name, row.Outcome = show(row.Name), show(row.Outcome)
			return row
		})
		g.Rungs = &r
	}
	g.Axes = numeric.Map(g.Axes, func(a GridAxis) GridAxis {
		a = GridAxis{Key: show(a.Key), Values: all(a.Values, shownText), Changes: a.Changes}
		for _, v := range a.Values {
			if x, err := strconv.ParseFloat(v, 64); err == nil && finite(x) {
				a.Numbers = append(a.Numbers, x)
			}
		}
		if len(a.Numbers) != len(a.Values) || len(a.Values) < 2 {
			a.Numbers = nil
		}
		return a
	})
	g.Cells = numeric.Map(g.Cells, func(c GridCell) GridCell {
		c.Runs = numeric.Map(c.Runs, func(r GridRun) GridRun {
			known := map[string]float64{}
			for key, v := range r.Figures {
				if finite(v) {
					known[key] = v
				}
			}
			return GridRun{r.Seed, show(r.Name), r.Report && linkable.MatchString(r.Name), known, show(r.Error),
				show(r.Left)}
		})
		return c
	})
	g.Figures = slices.DeleteFunc(slices.Clone(g.Figures), func(f GridFigure) bool { // a figure that no run has is left out
		return !slices.ContainsFunc(g.Cells, func(c GridCell) bool { return len(c.values(f.Key)) > 0 })
	})
	return g
}

// halfWidths are the half-widths of Student's t for 0 to n figures; 0 where there is no interval.
func halfWidths(n int) []float64 {
	list := make([]float64, n+1)
	for i := 2; i <= n; i++ {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(i - 1)}
		list[i] = t.Quantile(0.975) / math.Sqrt(float64(i))
	}
	return list
}

// values are the known figures of a combination, by seed.
func (c GridCell) values(key string) (list []float64) {
	for _, r := range c.Runs {
		if v, ok := r.Figures[key]; ok {
			list = append(list, v)
		}
	}
	return list
}

// show writes a figure.
func (f GridFigure) show(v float64) string {
	v *= f.Scale
	if power := math.Pow10(f.Decimals); f.Bound && finite(v) {
		v = math.Ceil(v*power-1e-9) / power
	}
	return fixed(v, f.Decimals)
}

// head is the figure's name with its unit.
func (f GridFigure) head() string {
	if f.Unit == "" {
		return f.Name
	}
	return f.Name + ", " + f.Unit
}

// table fills the table of all combinations, which needs no script.
func (p *gridPage) table() {
	g := p.Grid
	p.Head = numeric.Map(g.Figures, GridFigure.head)
	base := slices.IndexFunc(g.Cells, func(c GridCell) bool { return c.Default })
	best, _, _ := g.chosen()
	for i, c := range g.Cells {
		row := gridRow{Values: g.valuesOf(c), Default: c.Default, Runs: c.Runs, Against: missing, Best: i == best}
		for _, f := range g.Figures {
			values := c.values(f.Key)
			mean, sd := spread(values)
			shown := cell{Text: f.show(mean)}
			if len(values) > 1 {
				shown.Note = "± " + fixed(sd*f.Scale, f.Decimals)
			}
			row.Cells = append(row.Cells, shown)
		}
		if base >= 0 && base != i && len(g.Figures) > 0 {
			if text := against(c, g.Cells[base], g.Figures[0]); text != "" {
				row.Against, p.Paired = text, g.Figures[0].head()
			}
		}
		p.Rows = append(p.Rows, row)
	}
}

// paired are the differences of a figure between two combinations, of the seeds that have both, as they are shown.
func paired(c, base GridCell, f GridFigure) (list []float64) {
	for _, r := range c.Runs {
		for _, o := range base.Runs {
			v, ok := r.Figures[f.Key]
			was, known := o.Figures[f.Key]
			if r.Seed == o.Seed && ok && known && finite(v) && finite(was) {
				list = append(list, f.Scale*(v-was))
			}
		}
	}
	return list
}

// against is the difference of a figure to the default combination's, paired by seed: its mean and, of two seeds or
// more, its standard deviation. It is "" if a seed lacks one of the two.
func against(c, base GridCell, f GridFigure) string {
	list := paired(c, base, f)
	if len(list) == 0 || len(list) < len(c.Runs) {
		return ""
	}
	mean, sd := spread(list)
	text := fixed(mean, f.Decimals)
	if mean >= 0 {
		text = "+" + text
	}
	if len(list) > 1 {
		text += " ± " + fixed(sd, f.Decimals)
	}
	return text
}

// best is the number of the combination with the best mean of a figure besides one, −1 of none.
func (g Grid) best(f GridFigure, besides int) int {
	best, at := 0.0, -1
	for i, c := range g.Cells {
		mean, _ := spread(c.values(f.Key))
		if v := mean * float64(f.Better); i != besides && finite(mean) && (at < 0 || v > best) {
			best, at = v, i
		}
	}
	return at
}

// chosen is the best combination by the figure of [Grid.Choice], and the one that it is compared with: the default, or the
// second best where the default is the best or has no figure. −1 of both where there are no two with the figure.
func (g Grid) chosen() (best, rival int, f GridFigure) {
	at := slices.IndexFunc(g.Figures, func(f GridFigure) bool { return f.Key == g.Choice && f.Better != 0 })
	if at < 0 {
		return -1, -1, f
	}
	f = g.Figures[at]
	best = g.best(f, -1)
	rival = slices.IndexFunc(g.Cells, func(c GridCell) bool { return c.Default })
	if rival == best || rival < 0 || len(g.Cells[rival].values(f.Key)) == 0 {
		rival = g.best(f, best)
	}
	if rival < 0 {
		best = -1
	}
	return best, rival, f
}

// headline says which combination is the best by the figure of choice, and whether seeds tell it from its rival.
func (p *gridPage) headline() string {
	g := p.Grid
	i, rival, f := g.chosen()
	if i < 0 {
		return "No two combinations of settings have a result yet, so there is nothing to compare."
	}
	name := func(i int) string {
		if g.Cells[i].Default {
			return "the default (" + p.words(g.Cells[i]) + ")"
		}
		return p.words(g.Cells[i])
	}
	list := paired(g.Cells[i], g.Cells[rival], f)
	mean, sd := spread(list)
	by := fmt.Sprintf("%s %s than %s", fixed(math.Abs(mean), f.Decimals),
		map[bool]string{true: "more", false: "less"}[mean >= 0], name(rival))
	if mean == 0 {
		by = "no other than " + name(rival)
	}
	half := 0.0
	if n := len(list); n > 1 {
		half = sd * halfWidths(n)[n]
		by += fmt.Sprintf(" (95 %% interval over %d seeds: ± %s)", n, fixed(half, f.Decimals))
	}
	text := fmt.Sprintf("Best %s: %s; %s.", Lowered(f.Name), name(i), by)
	switch {
	case len(list) < 2:
		return text + " Fewer than two seeds have both, so nothing tells the difference from chance."
	case math.Abs(mean) <= half:
		return "Not distinguishable: the difference may be chance. " + text
	}
	return text
}

// valuesOf are the values of a combination, one of each axis.
func (g Grid) valuesOf(c GridCell) (values []string) {
	for axis, k := range c.At {
		values = append(values, g.Axes[axis].Values[k])
	}
	return values
}

// words are the keys and values of a combination.
func (p *gridPage) words(c GridCell) string {
	words := p.Grid.valuesOf(c)
	for axis, value := range words {
		if p.Grid.Axes[axis].Changes {
			words[axis] = shorten(value, 60)
			continue
		}
		words[axis] = shorten(p.Grid.Axes[axis].Key, 30) + " = " + shorten(value, 30)
	}
	return strings.Join(words, ", ")
}

// Lowered writes the head of a column as inside a sentence: "FID" and "DPO loss" stay, "Pairs" becomes "pairs".
func Lowered(name string) string {
	if len(name) > 1 && name[0] >= 'A' && name[0] <= 'Z' && name[1] >= 'a' && name[1] <= 'z' {
		return string(name[0]+'a'-'A') + name[1:]
	}
	return name
}
