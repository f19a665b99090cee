package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/show/series"
	"popri/testkit/testfile"
)

// figures are the figures of a made-up method.
var figures = series.Set{
	Columns: []series.Series{
		{Key: "chosen", Name: "Score chosen", Format: series.Number, Decimals: 4},
		{Key: "rejected", Name: "Score rejected", Format: series.Number, Decimals: 4},
		{Key: "loss", Name: "DPO loss", Format: series.Number, Decimals: 4},
		{Key: "accuracy", Name: "DPO accuracy", Format: series.Percent, Decimals: 1},
		{Key: "fid", Name: "FID", Format: series.Number, Decimals: 4},
		{Key: "pairs", Name: "Pairs", Format: series.Count},
		{Key: "nowhere", Name: "Never there", Format: series.Count},
	},
	Plots: []series.Plot{
		{Title: "Score of the pairs", Lines: []series.Line{{Key: "chosen", Name: "chosen"},
			{Key: "rejected", Name: "rejected"}}},
		{Title: "Distance to the clients' domain", Lines: []series.Line{{Key: "fid", Name: "FID"}}},
		{Title: "Preference accuracy", Percent: true, Lines: []series.Line{{Key: "accuracy", Name: "accuracy"}}},
		{Title: "DPO loss", Lines: []series.Line{{Key: "loss", Name: "loss"}}},
		{Title: "Never there", Lines: []series.Line{{Key: "nowhere", Name: "nowhere"}}},
	},
}

// full is a report with every part.
func full() Report {
	r := Report{
		Title:    "Go documentation, ε = 7",
		Subtitle: "A small GPT learns to write like the comments of the Go compiler, whose text it never sees.",
		Command:  "popri demo --out run --seed 1", Finished: time.Date(2026, 11, 21, 18, 4, 0, 0, time.UTC),
		Privacy: Privacy{
			Epsilon: 7, Delta: 1e-4, Spent: 6.98, Unit: "up to eight successive comments of one source file",
			NoiseMultiplier: 1.047, ClipNorm: 1,
			Rounds: 3, Planned: 3, Clients: 998, Accountant: "exact Gaussian", Denoise: "project", Protects: true,
			Spending: "ε = 6.98 of 7 was spent by 3 releases (δ = 0.0001), each a noised sum of 998 clients' vectors.",
			Statement: []string{"All releases together are private.", "The guarantee protects one client.",
				"Two data sets are neighbours."},
		},
		Results: []Result{
			{Key: "public", Name: "Public text only (ε = 0)", Accuracy: new(0.1942),
				AccuracyCI: &Interval{0.1921, 0.1963}, Perplexity: new(203.1), GapClosed: new(0.0)},
			{Key: "untuned", Name: "The untuned model's text", Accuracy: new(0.2083),
				AccuracyCI: &Interval{0.2061,
					0.2104}, Perplexity: new(171.2), GapClosed: new(0.27), GapClosedCI: &Interval{0.22, 0.32}},
			{Key: "public_all", Name: "All public text", Note: "everything the generator saw", Accuracy: new(0.2155),
				AccuracyCI: &Interval{0.2133,
					0.2176}, Perplexity: new(160.8), GapClosed: new(0.42), GapClosedCI: &Interval{0.37, 0.47}},
			{Key: "popri", Name: "POPri", Note: "12 000 synthetic texts", Accuracy: new(0.2215),
				AccuracyCI: &Interval{0.2192,
					0.2239}, Perplexity: new(151.4), GapClosed: new(0.53), GapClosedCI: &Interval{0.48, 0.59}},
			{Key: "private", Name: "The clients' own text (ε = ∞)", Accuracy: new(0.2451),
				AccuracyCI: &Interval{0.2425, 0.2478}, Perplexity: new(118.9), GapClosed: new(1.0)},
		},
		Product: "The run publishes a synthetic set: 12000 texts that the model wrote.",
		Verdict: "The small model and the strongest baseline, all public text, are not distinguishable: +0.60 points of " +
			"accuracy (95 % interval -0.10 to +1.30).",
		Notes: []string{"The prompts' public set leaves out the parts of the library that resemble a compiler; " +
			"with all public text the gap is half as wide."},
		Samples: Samples{[]SampleColumn{
			{"Before", "the untuned model",
				[]string{"Reader reads from the underlying stream and returns the number of bytes.",
					"The handler is called for each request that matches the pattern."}},
			{"After", "round 3",
				[]string{"walkStmt lowers the statement n and rewrites it into calls to runtime functions.",
					"The register allocator spills values whose next use is farthest away."}},
			{"Real", "public comments of the clients' domain",
				[]string{"liveness computes the set of variables that are live at each safepoint."}},
		}},
		Stages: []Stage{{"read data", 4.2}, {"generate", 181}, {"score", 3.3}, {"train", 140}, {"evaluate", 201}},
		Settings: []Setting{{"seed", "1", "1"}, {"dpo.beta", "0.2", "0.1"}, {"dpo.loss", "sigmoid", "sigmoid"},
			{"generate.prompts", "200", "200"}},
		Versions: []Version{{"popri", "v1.0.0"}, {"libtorch", "2.1.2"},
			{"model", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}},
	}
	r.Main = "popri"
	r.Series = figures.WithPrivacy()
	for i := range 3 {
		f := float64(i)
		r.Rounds = append(r.Rounds, Round{Figures: series.Round{Number: i + 1, Values: map[string]float64{
			"chosen": 0.031 + 0.004*f, "rejected": 0.012 + 0.003*f, "margin": 0.2 + 0.3*f, "loss": 0.69 - 0.06*f,
			"accuracy": 0.55 + 0.08*f,
			"fid":      0.284 - 0.02*f, "tokens": 38.2 - f, series.EpsilonKey: 3.6 + 1.7*f, "pairs": 200}},
			Seconds: 97.5, Selected: i == 2})
	}
	return r
}

func render(t testing.TB, r Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := Write(path, r); err != nil {
		t.Fatal(err)
	}
	return string(testfile.Read(t, path))
}

var outside = regexp.MustCompile(`(?i)(src|href)\s*=|url\(|@import|<script|<link|<iframe|<object|<img|javascript:`)

// own is what a page may hold of scripts and links: its one script, data for it, and the browser of texts next to it.
var own = regexp.MustCompile(`<script type="text/plain" id="texts-data">[A-Za-z0-9+/=]*</script>|<a href="[a-z0-9-]*-texts\.html">[^<]*</a>`)

// inside are the links of the contents.
var inside = regexp.MustCompile(`<a href="#([a-z-]+)">([^<]*)</a>`)

// checkParts checks that the links of the contents lead to their sections and that each table has a caption, and
// returns the page without these links.
func checkParts(t testing.TB, page string) string {
	t.Helper()
	for _, link := range inside.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `<section id="`+link[1]+`"`) || !strings.Contains(page, "<h2>"+link[2]+"</h2>") {
			t.Errorf("the contents' link %q leads nowhere, or to another heading than %q", link[1], link[2])
		}
	}
	if tables, captions := strings.Count(page, "<table"), strings.Count(page, "<caption>"); tables != captions {
		t.Errorf("%d tables and %d captions", tables, captions)
	}
	return inside.ReplaceAllString(page, "")
}

// checkPage checks what must hold for every page: self-contained, no script but its own, and elements closed in order.
func checkPage(t testing.TB, page string) {
	t.Helper()
	if code := "<script>" + string(pageScript.Code) + "</script>"; strings.Count(page, code) != 1 {
		t.Error("the page does not have its script once")
	} else {
		page = strings.Replace(page, code, "", 1)
	}
	hash := sha256.Sum256([]byte(pageScript.Code))
	if want := "script-src &#39;sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"&#39;\">"; !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"), want) {
		t.Errorf("the policy does not allow the script and it alone: %s", want)
	}
	page = own.ReplaceAllString(page, "")
	page = checkParts(t, page)
	page = strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, "")
	if found := outside.FindString(page); found != "" {
		t.Errorf("the page holds %q", found)
	}
	if strings.Contains(page, "ZgotmplZ") {
		t.Error("the template refused a value")
	}
	for _, nonsense := range []string{"NaN", "%!", "#0A0B", "Inf<", "<nil>"} {
		if strings.Contains(page, nonsense) {
			t.Errorf("the page holds %q", nonsense)
		}
	}
	// The page is written so that it is XML too, but for the doctype and the meta elements, which makes it easy to
	// check.
	page = regexp.MustCompile(`(?i)<!doctype html>|<meta[^>]*>`).ReplaceAllString(page, "")
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Entity = xml.HTMLEntity
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
	}
}

func TestFullReport(t *testing.T) {
	page := render(t, full())
	checkPage(t, page)
	for _, want := range []string{"All releases together", "protects one client",
		"Go documentation, ε = 7", "complete", "21 November 2026", "22.15\u202f%", "21.92 – 22.39", "48 – 59", "151.40",
		"ε = 0", "ε = ∞", "walkStmt lowers", "up to eight successive comments of one source file", "δ = 10⁻⁴", "998",
		"8\u202fmin 50\u202fs", "changed", "default 0.1", "2.1.2", "var(--s1)", "Preference accuracy", "budget",
		"ε = 6.98",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "Mind") {
		t.Error("a warning without a reason")
	}
}

// With POPRI_REPORT_OUT set to a folder, the pages are left there to be looked at.
func TestLeavePages(t *testing.T) {
	dir := os.Getenv("POPRI_REPORT_OUT")
	if dir == "" {
		t.Skip("POPRI_REPORT_OUT is not set")
	}
	a, b := full(), full()
	b.Title, b.Privacy.Epsilon, b.Privacy.Protects, b.Interrupted = "Go documentation, ε = 1", 1, false,
		"after round 2 of 3"
	b.Privacy.Warnings = []string{"The noise came from the seed."}
	b.Rounds = b.Rounds[:2]
	b.Settings[3].Value, b.Results[3].Accuracy = "400", new(0.2170)
	for name, r := range map[string]Report{"run.html": a, "interrupted.html": b, "empty.html": {}} {
		if err := Write(filepath.Join(dir, name), r); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(Compare(filepath.Join(dir, "compare.html"), []Report{a, b}),
		WriteGrid(filepath.Join(dir, "grid.html"), someGrid())); err != nil {
		t.Error(err)
	}
}

func TestWarnings(t *testing.T) {
	r := full()
	r.Privacy.Protects = false
	r.Privacy.Warnings, r.Privacy.Spending = []string{"one thing", "another thing"}, "This run protects nobody."
	page := render(t, r)
	for _, want := range []string{"one thing", "another thing", "This run protects nobody"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"ε = 7</dd>", "<dt>Spent</dt>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page of a run that protects nobody holds %q", bad)
		}
	}
}

// A bound is never shown smaller than it is.
func TestEpsilonIsRoundedUp(t *testing.T) {
	r := full()
	r.Privacy.Epsilon, r.Privacy.Spent = 7.0001, 6.98004
	r.Rounds[2].Figures.Values[series.EpsilonKey] = 6.98004
	page := render(t, r)
	for _, want := range []string{"ε = 7.001", "ε = 6.981", ">6.981<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// Every part may be missing, and values may be.
func TestMissingParts(t *testing.T) {
	checkPage(t, render(t, Report{}))
	r := full()
	r.Interrupted = "after round 2 of 3"
	r.Results = nil
	page := render(t, r)
	checkPage(t, page)
	if !strings.Contains(page, "interrupted after round 2 of 3") || !strings.Contains(page, "Not evaluated") {
		t.Error("the page does not say that it was interrupted")
	}
	for name, change := range map[string]func(*Report){
		"no rounds": func(r *Report) { r.Rounds = nil },
		"one round": func(r *Report) { r.Rounds = r.Rounds[:1] },
		"bare rounds": func(r *Report) {
			r.Rounds = []Round{{Figures: series.Round{Number: 1}}, {Figures: series.Round{Number: 2}}}
		},
		"gaps": func(r *Report) {
			delete(r.Rounds[1].Figures.Values, "fid")
			r.Rounds[2].Figures.Values["loss"] = math.NaN()
			r.Rounds[0].Figures.Values["chosen"] = math.Inf(1)
		},
		"no samples":    func(r *Report) { r.Samples = Samples{} },
		"empty columns": func(r *Report) { r.Samples.Columns[1].Texts = nil },
		"no intervals": func(r *Report) {
			for i := range r.Results {
				r.Results[i].AccuracyCI = nil
			}
		},
		"bare results": func(r *Report) {
			for i := range r.Results {
				r.Results[i] = Result{Name: "x"}
			}
		},
		"one result": func(r *Report) { r.Results = r.Results[:1]; r.Results[0].AccuracyCI = nil },
		"broken results": func(r *Report) {
			r.Results[0].Accuracy = new(math.NaN())
			r.Results[1].AccuracyCI = &Interval{math.Inf(-1), math.NaN()}
		},
		"no privacy": func(r *Report) { r.Privacy = Privacy{} },
		"no times":   func(r *Report) { r.Stages = []Stage{{"a", 0}, {"b", math.NaN()}} },
		"huge numbers": func(r *Report) {
			r.Rounds[0].Figures.Values["loss"] = 1e30
			r.Rounds[1].Figures.Values["fid"] = -1e-30
			r.Privacy.Epsilon = 1e9
		},
		"equal values": func(r *Report) {
			for i := range r.Rounds {
				r.Rounds[i].Figures.Values["fid"] = 0
				r.Rounds[i].Figures.Values["loss"] = -3.5
			}
		},
		"many rounds": func(r *Report) {
			for i := range 200 {
				r.Rounds = append(r.Rounds,
					Round{Figures: series.Round{Number: 4 + i, Values: map[string]float64{"fid": float64(i)}}})
			}
		},
		"spent is zero":   func(r *Report) { r.Privacy.Spent = 0 },
		"unknown default": func(r *Report) { r.Settings = append(r.Settings, Setting{"lora.targets", "[a]", ""}) },
	} {
		r := full()
		change(&r)
		t.Run(name, func(t *testing.T) { checkPage(t, render(t, r)) })
	}
}

// poison puts text into every string of a report.
func poison(text string) Report {
	r := full()
	encoded, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		panic(err)
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if _, err := time.Parse(time.RFC3339, v); err == nil {
				return v
			}
			return text + v
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	encoded, err = json.Marshal(walk(tree))
	if err != nil {
		panic(err)
	}
	var out Report
	if err := json.Unmarshal(encoded, &out); err != nil {
		panic(err)
	}
	out.Privacy.Warnings = []string{text}
	return out
}

func TestTextIsEscaped(t *testing.T) {
	for _, text := range []string{"<script>alert(1)</script>", `"><script>x</script>`, "</style><script>", "</svg><b>",
		"' onload='x", "{{.}}", "&lt;script&gt;&", "]]>", "<!--"} {
		page := render(t, poison(text))
		checkPage(t, strings.ReplaceAll(page, "onload=", ""))
		path := filepath.Join(t.TempDir(), "c.html")
		if err := Compare(path, []Report{poison(text), full()}); err != nil {
			t.Fatal(err)
		}
		content := testfile.Read(t, path)
		checkPage(t, string(content))
	}
}

func FuzzTextIsEscaped(f *testing.F) {
	f.Add("<script>alert(1)</script>", 0.5)
	f.Add("\x00\xff\u2028 &amp; --> ]]>", math.NaN())
	f.Add("x", -1e300)
	legal := func(s string) string { // XML, which the check reads, has no control characters; HTML shows nothing for them
		return strings.Map(func(r rune) rune {
			if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
				return -1
			}
			return r
		}, strings.ToValidUTF8(s, ""))
	}
	f.Fuzz(func(t *testing.T, text string, number float64) {
		text = legal(text)
		if outside.MatchString(text) || strings.Contains(text, "NaN") || strings.Contains(text, "%!") ||
			strings.Contains(text, "ZgotmplZ") || strings.Contains(text, "<nil>") || strings.Contains(text, "Inf<") ||
			strings.Contains(text, "#0A0B") {
			t.Skip("the check could not tell it from a mistake")
		}
		r := poison(text)
		r.Rounds[1].Figures.Values["fid"], r.Rounds[0].Figures.Values["loss"], r.Results[1].Accuracy,
			r.Privacy.Epsilon = number, number, &number, number
		r.Stages[0].Seconds = number
		p := newPage(r)
		var page strings.Builder // straight to memory: a flushed file each time would be most of the work
		if err := pages.ExecuteTemplate(&page, "run", p); err != nil {
			t.Fatal(err)
		}
		checkPage(t, page.String())
	})
}

func TestCompare(t *testing.T) {
	a, b := full(), full()
	b.Title, b.Privacy.Epsilon, b.Results[3].Accuracy = "ε = 1", 1, new(0.2170)
	b.Settings[1].Value = "0.4"
	b.Results[3].Bits, b.SmallModel = new(1.234), []string{"It is in the folder small."}
	c := Report{Interrupted: "after round 1"}
	path := filepath.Join(t.TempDir(), "compare.html")
	if err := Compare(path, []Report{a, b, c}); err != nil {
		t.Fatal(err)
	}
	content := testfile.Read(t, path)
	page := string(content)
	checkPage(t, page)
	for _, want := range []string{"3 runs",
		"Of 2 runs, “Go documentation, ε = 7” gives the highest accuracy, 22.1\u202f%. The lowest, of “ε " +
			"= 1”, is 21.7",
		`<figure class="picture">`, "ε = 1", "Run 3", "interrupted after round 1", "21.70\u202f%", "22.15\u202f%",
		"dpo.beta", "0.4", "best", "Bits of a character", "1.234", "<small>It is in the folder small.</small>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "dpo.loss") && !strings.Contains(page, missing) {
		t.Error("a setting that is the same everywhere is listed")
	}
	// A run with another small model or other test clients is not compared.
	other := full()
	other.Results = slices.Clone(other.Results)
	other.Results[slices.IndexFunc(other.Results,
		func(r Result) bool { return r.Key == keyPublic })].Accuracy = new(0.161)
	if err := Compare(path, []Report{a, b, other}); err != nil {
		t.Fatal(err)
	}
	content = testfile.Read(t, path)
	if page = string(content); !strings.Contains(page, "are not compared") ||
		strings.Contains(page, "gives the highest accuracy") || strings.Contains(page, `class="n best"`) {
		t.Error("runs of different test clients are compared")
	}
	// Runs of one title are distinguished, and a warning that all have stands once.
	a.Folder, b.Folder, b.Title = "one", "two", a.Title
	for _, r := range []*Report{&a, &b} {
		r.Privacy.Warnings = []string{"mind this"}
	}
	if err := Compare(path, []Report{a, b}); err != nil {
		t.Fatal(err)
	}
	content = testfile.Read(t, path)
	if page = string(content); !strings.Contains(page, a.Title+" (one)") || !strings.Contains(page, a.Title+" (two)") ||
		strings.Count(page, "mind this") != 1 || !strings.Contains(page, "All runs: mind this") {
		t.Error("two runs of one title are not told apart, or a warning of both stands twice")
	}
	for _, runs := range [][]Report{nil, {{}}, {full()}} {
		if err := Compare(path, runs); err != nil {
			t.Error(err)
		}
	}
}

func TestReportsSurviveJSON(t *testing.T) {
	encoded, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(encoded, &back); err != nil {
		t.Fatal(err)
	}
	if render(t, back) != render(t, full()) {
		t.Error("stored and shown again it differs")
	}
}

func TestWriteNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "report.html")
	if err := Write(path, Report{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		significant(1e-4, 2): "10⁻⁴", significant(3e-6, 2): "3\u202f·\u202f10⁻⁶", significant(7,
			3): "7", significant(1096.63, 3): "1100", significant(123456, 2): "120\u202f000",
		fixed(-0.00001, 3): "0.000", fixed(-1.5, 1): "−1.5", percent(0.2215,
			1): "22.1\u202f%", count(1234567): "1\u202f234\u202f567", count(-12): "−12",
		Duration(4.25): "4.2\u202fs", Duration(61): "61\u202fs", Duration(599.7): "10\u202fmin 00\u202fs",
		Duration(7384):              "2\u202fh 03\u202fmin",
		significant(math.Inf(1), 3): "∞", fixed(math.NaN(), 2): missing, superscript(-12): "⁻¹²",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNiceTicks(t *testing.T) {
	for _, span := range [][2]float64{{0, 1}, {0.19, 0.25}, {-3, 3}, {5, 5}, {0, 0}, {1e-9, 2e-9}, {1e20, 3e20},
		{0.6931, 0.6932}, {-1e-30, 1e30}} {
		ticks, low, high := niceTicks(span[0], span[1], false)
		if len(ticks) < 2 || len(ticks) > 12 || !(low <= span[0]) || !(high >= span[1]) {
			t.Errorf("%v: %v from %v to %v", span, ticks, low, high)
		}
		seen := map[string]bool{}
		for _, tick := range ticks {
			if seen[tick.Label] {
				t.Errorf("%v: two ticks are labelled %q", span, tick.Label)
			}
			seen[tick.Label] = true
		}
	}
}
