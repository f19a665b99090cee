package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// someGrid is an ablation over two axes and two seeds, of which one run failed, one combination was dropped, and one
// has no result.
func someGrid() Grid {
	g := Grid{Title: "Ablation over dpo.beta, dpo.loss", Statement: []string{"All releases are private."},
		Together: "ε = 12.5", Composed: []string{"8 runs on the same private data, together: ε = 12.5."},
		Seeds: []uint64{1, 2}, Choice: "accuracy",
		Axes: []GridAxis{{Key: "dpo.beta", Values: []string{"0.1", "0.4"}},
			{Key: "dpo.loss", Values: []string{"sigmoid", "ipo"}}},
		Figures: []GridFigure{{Key: "accuracy", Name: "Accuracy", Unit: "%", Scale: 100, Decimals: 2, Better: 1},
			{Key: "epsilon", Name: "ε spent", Scale: 1, Decimals: 3, Better: -1, Bound: true}},
		Rungs: &GridRungs{Figure: "Loss on validation clients.", Heads: []string{"after 2 rounds"},
			Rows: []GridRungRow{{"dpo.beta = 0.1", []string{"3.21"}, "went on", true}}},
		Settings: []Setting{{"seed", "1", "1"}}, Versions: []Version{{"popri", "v1"}}}
	run := func(seed uint64, name string, accuracy float64) GridRun {
		return GridRun{Seed: seed, Name: name, Report: true,
			Figures: map[string]float64{"accuracy": accuracy, "epsilon": 6.9991}}
	}
	g.Cells = []GridCell{
		{At: []int{0, 0}, Default: true, Runs: []GridRun{run(1, "a", 0.20), run(2, "b", 0.22)}},
		{At: []int{1, 0}, Runs: []GridRun{run(1, "c", 0.25), run(2, "d", 0.25)}},
		{At: []int{0, 1}, Runs: []GridRun{run(1, "e", 0.21), {Seed: 2, Name: "f", Error: "the disk is full"}}},
		{At: []int{1, 1}, Runs: []GridRun{{Seed: 1, Name: "g", Left: "dropped after 2 rounds"},
			{Seed: 2, Name: "h", Left: "dropped after 2 rounds"}}},
	}
	return g
}

func renderGrid(t testing.TB, g Grid) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := WriteGrid(path, g); err != nil {
		t.Fatal(err)
	}
	return string(testfile.Read(t, path))
}

var (
	gridBlock = regexp.MustCompile(`(?s)<script type="application/json" id="grid-data">(.*?)</script>`)
	runLink   = regexp.MustCompile(`<a href="\./[A-Za-z0-9._=,%+-]*/report\.html">\d+</a>`)
)

// checkGrid checks that an ablation's page holds nothing but its script, its data and links to the reports next to it.
func checkGrid(t testing.TB, page string) (data gridData) {
	t.Helper()
	found := gridBlock.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal([]byte(found[1]), &data); err != nil {
		t.Fatal(err)
	}
	code := string(gridScript.Code)
	if strings.Count(page, "<script>"+code+"</script>") != 1 {
		t.Error("the page does not have its script once")
	}
	hash := sha256.Sum256([]byte(code))
	if want := base64.StdEncoding.EncodeToString(hash[:]); !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"),
		"script-src &#39;sha256-"+want) {
		t.Error("the policy does not allow the script and it alone")
	}
	page = strings.Replace(page, code, "", 1)
	page = strings.Replace(gridBlock.ReplaceAllString(page, ""), "<script></script>", "", 1)
	page = checkParts(t, page)
	page = strings.ReplaceAll(runLink.ReplaceAllString(page, ""), `xmlns="http://www.w3.org/2000/svg"`, "")
	if found := outside.FindString(page); found != "" {
		t.Errorf("the page holds %q", found)
	}
	for _, nonsense := range []string{"NaN", "%!", "#0A0B", "Inf<", "<nil>", "ZgotmplZ"} {
		if strings.Contains(page, nonsense) {
			t.Errorf("the page holds %q", nonsense)
		}
	}
	return data
}

func TestGrid(t *testing.T) {
	page := renderGrid(t, someGrid())
	data := checkGrid(t, page)
	if len(data.Cells) != 4 || data.Axes[0].Numbers[1] != 0.4 || data.Axes[1].Numbers != nil ||
		data.Cells[2].Runs[1].Error == "" {
		t.Errorf("%+v", data)
	}
	// Half the width of the 95 % interval of a mean of two is Student's t with one degree of freedom, over √2.
	if want := 12.7062 / math.Sqrt2; len(data.Half) != 3 || math.Abs(data.Half[2]-want) > 1e-3 || data.Half[1] != 0 {
		t.Errorf("half widths %v, want %g at 2", data.Half, want)
	}
	for _, want := range []string{
		"21.00<small>± 1.41</small>",   // the mean over seeds
		">&#43;4.00 ± 1.41</td>",       // paired by seed: +5 and +3
		"7.000<small>",                 // a bound is rounded up
		`href="./a/report.html">1</a>`, // the runs
		"the disk is full", "2 failed", "2 dropped", "1 of 8 runs failed", "together: ε = 12.5",
		"Not distinguishable: the difference may be chance. Best accuracy: dpo.beta = 0.4, dpo.loss = sigmoid; 4.00 " +
			"more than the default (dpo.beta = 0.1, dpo.loss = sigmoid) (95 % interval over 2 seeds: ± 12.71).",
		"went on", "Loss on validation clients.", `class="drawn"><figure`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Count(page, "<small>default</small>") != 1 || strings.Count(page, `<tr class="main">`) != 2 {
		t.Error("not one row is the default and one the best")
	}
}

// TestGridHeadline: only a difference that seeds tell from chance makes a best setting, by the figure of choice.
func TestGridHeadline(t *testing.T) {
	headline := func(choice string, accuracies, losses [2][]float64) string {
		g := Grid{Choice: choice, Axes: []GridAxis{{Key: "a", Values: []string{"1", "2"}}}, Figures: []GridFigure{
			{Key: "accuracy", Name: "Accuracy", Scale: 100, Decimals: 1, Better: 1},
			{Key: "validation", Name: "Validation loss", Scale: 1, Decimals: 2, Better: -1}}}
		for i := range accuracies {
			c := GridCell{At: []int{i}, Default: i == 0}
			for k, v := range accuracies[i] {
				c.Runs = append(c.Runs, GridRun{Seed: uint64(k), Figures: map[string]float64{"accuracy": v, "validation": losses[i][k]}})
			}
			g.Cells = append(g.Cells, c)
		}
		return newGridPage(g).Headline
	}
	better := [2][]float64{{0.20, 0.22, 0.21}, {0.30, 0.32, 0.31}}
	for _, c := range []struct {
		choice     string
		losses     [2][]float64
		begins, in string
	}{
		{"validation", [2][]float64{{3, 3.1, 3.2}, {3.5, 3.61, 3.7}}, "Best validation loss: the default (a = 1); 0.50 less than a = 2", "± 0.01"},
		{"validation", [2][]float64{{3, 3.1, 3.2}, {2.9, 3.2, 3.1}}, "Not distinguishable", "a = 2; 0.03 less than the default"},
		{"accuracy", [2][]float64{{3, 3, 3}, {3, 3, 3}}, "Best accuracy: a = 2; 10.0 more than the default (a = 1)", "± 0.0"},
		{"none", [2][]float64{{3, 3, 3}, {3, 3, 3}}, "No two combinations", ""},
	} {
		if got := headline(c.choice, better, c.losses); !strings.HasPrefix(got, c.begins) || !strings.Contains(got, c.in) {
			t.Errorf("%s %v: %s", c.choice, c.losses, got)
		}
	}
	if got := headline("accuracy", [2][]float64{{0.2}, {0.3}}, [2][]float64{{3}, {3}}); !strings.Contains(got, "Fewer than two seeds") {
		t.Error(got)
	}
}

// Whatever is missing, a page is made.
func TestGridWithLess(t *testing.T) {
	for name, change := range map[string]func(*Grid){
		"nothing":    func(g *Grid) { *g = Grid{} },
		"no figures": func(g *Grid) { g.Figures = nil },
		"one seed": func(g *Grid) {
			g.Seeds = g.Seeds[:1]
			for i := range g.Cells {
				g.Cells[i].Runs = g.Cells[i].Runs[:1]
			}
		},
		"not a number": func(g *Grid) { g.Cells[0].Runs[0].Figures["accuracy"] = math.NaN() },
		"infinite":     func(g *Grid) { g.Cells[0].Runs[0].Figures["epsilon"] = math.Inf(1) },
		"one value": func(g *Grid) {
			g.Axes, g.Cells = g.Axes[:1], []GridCell{{At: []int{0}, Runs: g.Cells[0].Runs}}
		},
		"plain order": func(g *Grid) { g.Rungs = nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := someGrid()
			change(&g)
			checkGrid(t, renderGrid(t, g))
		})
	}
}

// Names, values and errors of unknown origin are shown as text, and those that turn the direction of writing are named.
func TestGridIsEscaped(t *testing.T) {
	for _, text := range []string{"<script>alert(1)</script>", `"><script>x</script>`, "</script><script>",
		"' onload='x", "{{.}}", "]]>", "<!--", "\u202eturned"} {
		g := someGrid()
		g.Title, g.Subtitle, g.Composed, g.Notes = text, text, []string{text}, []string{text}
		g.Axes[1].Key, g.Axes[1].Values[1] = text, text
		g.Cells[2].Runs[1].Error, g.Cells[3].Runs[0].Left = text, text
		g.Cells[1].Runs[0].Name = text
		g.Rungs.Rows[0].Name, g.Rungs.Rows[0].Outcome = text, text
		page := renderGrid(t, g)
		data := checkGrid(t, page)
		if strings.ContainsRune(page, '\u202e') || strings.ContainsRune(data.Axes[1].Key, '\u202e') {
			t.Errorf("%q turns the direction of writing", text)
		}
		if want := strings.ReplaceAll(text, "\u202e", "⟨U+202E⟩"); data.Axes[1].Values[1] != want ||
			data.Cells[2].Runs[1].Error != want {
			t.Errorf("%q became %q", text, data.Axes[1].Values[1])
		}
	}
}
