package report

import (
	"math"
	"strings"
	"testing"
)

// The sentence at the top says what the figures say, in the words of the task.
func TestHeadline(t *testing.T) {
	row := func(key string, accuracy float64) Result {
		return Result{Key: key, Name: "text " + key, Accuracy: &accuracy}
	}
	ranged := func(key string, accuracy, low, high float64) Result {
		r := row(key, accuracy)
		r.AccuracyCI = &Interval{low, high}
		return r
	}
	labels := func(list ...Result) []Result {
		for i := range list {
			list[i].MacroF1 = new(0.5)
		}
		return list
	}
	perplexity := func(key string, v float64) Result { return Result{Key: key, Name: "text " + key, Perplexity: &v} }
	const figures = "A small model predicts 16.1\u202f% of the next words in the test clients' texts without further " +
		"training, 19.5\u202f% after training on the synthetic set of this run and 19.6\u202f% after training on the clients' own texts."
	public, product, private := row(keyPublic, .161), row("popri", .195), row(keyPrivate, .196)
	for name, c := range map[string]struct {
		rows        []Result
		interrupted string
		want        string
	}{
		"alone": {[]Result{public, product, private}, "", figures},
		"better": {[]Result{public, row("a", .17), row("b", .18), product, private}, "",
			figures + " The best baseline, “text b”, gives 18.0\u202f%."},
		"worse": {[]Result{public, row("a", .2), product, private}, "",
			figures + " The synthetic set is no better than the baseline “text a”, which gives 20.0\u202f%."},
		"the same": {[]Result{public, row("a", .195), product, private}, "",
			figures + " The synthetic set is no better than the baseline “text a”, which gives 19.5\u202f%."},
		"a part that is no better": {[]Result{public, row("a", .17), ranged(keyWritten, .197, .19, .204), product, private}, "",
			figures + " The best baseline, “text a”, gives 17.0\u202f%."},
		"a part that is better": {[]Result{public, row("a", .17), ranged(keyWritten, .205, .198, .212), product, private}, "",
			figures + " The synthetic set is no better than the baseline “text written”, which gives 20.5\u202f%."},
		"a part that is the whole": {[]Result{public, {Key: keyWritten, Name: "text written", Accuracy: new(.195), Same: true}, product,
			private}, "", figures},
		"no help": {[]Result{row(keyPublic, .195), product}, "", "This run did not help."},
		"close": {[]Result{row(keyPublic, .1951), row("popri", .1953)}, "",
			"texts without further training and 19.53\u202f% after"},
		"no product": {[]Result{public, private}, "", "The synthetic set itself was not measured."},
		"labels": {labels(public, product), "",
			"A small model gives 16.1\u202f% of the test clients' texts their label after training on public text " +
				"and 19.5\u202f% after training on the synthetic set of this run."},
		"labels, worse": {labels(row(keyPublic, .3), product), "", "The synthetic set is no better than public text."},
		"perplexity": {[]Result{perplexity(keyPublic, 200), perplexity("a", 180.5), perplexity("popri", 150),
			perplexity(keyPrivate, 120)}, "",
			"A small model has a perplexity of 200.0 on the test clients' texts (less is better) without further " +
				"training, 150.0 after training on the synthetic set of this run and 120.0 after training on the clients' " +
				"own texts. The best baseline, “text a”, gives 180.5."},
		"less is worse": {[]Result{perplexity("a", 140), perplexity("popri", 150)}, "",
			"no better than the baseline “text a”, which gives 140.0."},
		"not evaluated":  {nil, "", "No result yet: no small model has been trained"},
		"interrupted":    {nil, "after round 2 of 3", "No result yet. The run was interrupted after round 2 of 3."},
		"figures unread": {[]Result{row("popri", math.NaN())}, "", "No result yet"},
	} {
		r := Report{Main: "popri", Results: c.rows, Interrupted: c.interrupted}
		if got := headline(r, pictured(r)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nlacks: %s", name, got, c.want)
		}
	}
}

// The picture has the rows of the sentence with their figures and intervals, and the parts of the first screen come in
// order.
func TestFirstScreen(t *testing.T) {
	page := render(t, full())
	at := 0
	for _, want := range []string{`<p class="headline">A small model predicts 19.4`,
		"22.1\u202f% after training on the synthetic set", "“All public text”, gives 21.6\u202f%",
		`<figure class="picture">`, `aria-label="Public text only (ε = 0): 19.42`, `aria-label="All public text: 21.55`,
		"aria-label=\"POPri: 22.15\u202f%, interval 21.92\u202f% to 22.39\u202f%\"", "(ε = ∞): 24.51",
		"strongest baseline", "interval −0.10 to",
		"synthetic set: 12\u202f000 texts", "ε = 6.98 of 7 was spent by 3 releases", `<nav class="contents"`,
		`<section id="privacy">`, "All releases together are private. The guarantee protects one client.</p>\n<details",
		"<p>Two data sets are neighbours.</p>", `<section id="results">`} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("the page lacks %q, or has it too early", want)
		}
		at += i
	}
	if strings.Contains(page[:at], "The untuned model&#39;s text") {
		t.Error("the picture has a baseline that is not the best")
	}
	page = render(t, Report{})
	for _, bad := range []string{`class="picture"`, `class="verdict"`, `class="spent"`} {
		if strings.Contains(page, bad) {
			t.Errorf("the page of an empty report has %s", bad)
		}
	}
}

// A column without a value is left out.
func TestEmptyColumns(t *testing.T) {
	r := full()
	for i := range r.Results {
		r.Results[i].GapClosed, r.Results[i].GapClosedCI, r.Results[i].Perplexity = nil, nil, nil
	}
	for i := range r.Rounds {
		r.Rounds[i].Seconds = 0
	}
	page := render(t, r)
	checkPage(t, page)
	for _, bad := range []string{">Gap closed</th>", ">Perplexity</th>",
		`<th scope="col" class="n">Time</th></tr></thead>
<tbody><tr class`} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if !strings.Contains(page, ">Accuracy</th>") {
		t.Error("a column with values is left out")
	}
}

func TestReadable(t *testing.T) {
	for text, want := range map[string]string{
		"16000 of 16200 rows":                          "16\u202f000 of 16\u202f200 rows",
		"-0.19 points (-0.41 to +0.04), x=-3":          "−0.19 points (-0.41 to +0.04), x=−3",
		"in 2026, 1516 clients, 1-3, sha 123456ab":     "in 2026, 1516 clients, 1-3, sha 123456ab",
		"MiniLM-L6, latent-512, 2026-11-23, 0.1234567": "MiniLM-L6, latent-512, 2026-11-23, 0.1234567",
		"1234567.5 bytes":                              "1\u202f234\u202f567.5 bytes",
	} {
		want = strings.ReplaceAll(want, "(-", "(−")
		if got := Readable(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Each measured point of a curve shows its round and value to pointer and keyboard; a curve takes the focus once.
func TestPointsTellTheirValues(t *testing.T) {
	page := render(t, full())
	for _, want := range []string{`aria-label="round 2: 63.00` + "\u202f" + `%"><title>round 2: 63.00`,
		"round 3: 0.039, chosen", "round 3: 0.018, rejected", "round 3: 7, spent<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if curves, focused := strings.Count(page, `<svg viewBox`), strings.Count(page, `tabindex="0"`); curves != focused ||
		curves < 5 {
		t.Errorf("%d curves and %d places that take the focus", curves, focused)
	}
	x := make([]float64, 1000)
	for i := range x {
		x[i] = float64(i)
	}
	html := PlotCurve("long", "", "update", x, x)
	if n := strings.Count(html, "<circle class="); n < mostValues/2 || n > mostValues ||
		!strings.Contains(html, "update 999: 999<") {
		t.Errorf("%d points of a long curve, or not its last", n)
	}
}

// TestHeadlineOfModel: a run that publishes a model is not said to lack results about a set.
func TestHeadlineOfModel(t *testing.T) {
	if text := headline(Report{Learns: true}, nil); strings.Contains(text, "set") || !strings.Contains(text, "popri eval") {
		t.Error(text)
	}
}
