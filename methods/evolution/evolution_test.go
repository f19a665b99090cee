package evolution

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/internal/rng"
	"popri/methods/method"
	"popri/methods/sampling"
	"popri/model/embedding"
)

// scribe stands for a language model: it writes a word that depends on the seed and the request's place, after the
// beginning where there is one. Some of its texts are blank.
type scribe struct {
	blank float64 // the share of blank texts
	calls [][]Request
}

func (w *scribe) Write(_ context.Context, requests []Request, seed uint64) ([]string, error) {
	w.calls = append(w.calls, requests)
	random := rng.New(seed, "scribe")
	out := make([]string, len(requests))
	for i, r := range requests {
		word := fmt.Sprintf("w%d", random.Uint32())
		if random.Float64() < w.blank {
			out[i] = " \n"
			continue
		}
		out[i] = strings.TrimSpace(r.Beginning + " " + word)
	}
	return out, nil
}

func configured(t testing.TB, set ...string) configs.Config {
	t.Helper()
	c, err := configs.Load(configs.LoadOptions{Set: append([]string{"private_evolution.population=12"}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	return *c
}

func open(t testing.TB, w Writer, set ...string) *Evolution {
	t.Helper()
	return newEvolution(configured(t, set...), w)
}

func public(n int) []datasets.Text {
	out := make([]datasets.Text, n)
	for i := range out {
		out[i].Text = fmt.Sprintf("public text %d has eight words or so", i)
	}
	return out
}

// labelled are public texts of which every third one is "odd" and the others are "even".
func labelled(n int) []datasets.Text {
	out := public(n)
	for i := range out {
		out[i].Label = map[bool]string{true: "odd", false: "even"}[i%3 == 0]
	}
	return out
}

// evolve runs rounds with votes from a seed; every third round has none above the threshold.
func evolve(t testing.TB, e *Evolution, rounds int, seed uint64) []Round {
	t.Helper()
	return evolveFrom(t, e, public(30), rounds, seed)
}

func evolveFrom(t testing.TB, e *Evolution, from []datasets.Text, rounds int, seed uint64) []Round {
	t.Helper()
	ctx := context.Background()
	p, err := e.Start(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	var out []Round
	for round := 1; ; round++ {
		votes := make([]float64, len(p.Samples))
		random := rng.New(seed, "votes", fmt.Sprint(round))
		for i := range votes {
			if votes[i] = 3 * random.NormFloat64(); round%3 == 0 {
				votes[i] = -1
			}
		}
		if round%3 != 0 {
			votes[random.IntN(len(votes))] = 10
		}
		s := e.Select(p, votes)
		out = append(out, Round{p, s})
		if round == rounds {
			return out
		}
		if p, err = e.Next(ctx, p, s); err != nil {
			t.Fatal(err)
		}
	}
}

var everyKind = [][]string{
	{},
	{"private_evolution.variant=aug_pe"},
	{"private_evolution.variant=aug_pe", "generate.examples=0"},
}

// Populations keep their size, every parent exists and was selected, generations count variations, and rows hold all of
// it.
func TestPopulations(t *testing.T) {
	for _, set := range everyKind {
		w := &scribe{blank: 0.2}
		e := open(t, w, set...)
		kinds := map[Kind]int{}
		rounds := evolve(t, e, 7, 5)
		for i, r := range rounds {
			if r.Population.Round != i+1 || len(r.Population.Samples) != e.Len() || r.Selection.Len() != 12 ||
				r.Selection.Kept != (i%3 == 2) {
				t.Fatalf("%v round %d: %d samples, selected %+v", set, i+1, len(r.Population.Samples), r.Selection)
			}
			for j, s := range r.Population.Samples {
				kinds[s.Kind]++
				if strings.TrimSpace(s.Text) == "" {
					t.Fatalf("%v round %d: sample %d is blank", set, i+1, j)
				}
				checkParent(t, rounds[:i+1], s)
			}
			if got := fromRows(r.Population.Round, rowsOf(r)); !reflect.DeepEqual(got, r) {
				t.Fatalf("%v round %d: the rows hold something else: %+v", set, i+1, got)
			}
		}
		if kinds[Public] == 0 || kinds[Kept] == 0 || kinds[e.rules.variation] == 0 || len(kinds) != 3 {
			t.Errorf("%v: kinds %v", set, kinds)
		}
	}
}

// checkParent checks a sample of the last of the rounds.
func checkParent(t *testing.T, rounds []Round, s Sample) {
	t.Helper()
	last := len(rounds) - 1
	if s.Kind == Public {
		if last != 0 || s.Parent != -1 || s.Generation != 0 || !slices.Contains(datasets.Strings(public(30)), s.Text) {
			t.Fatalf("round %d: %+v", last+1, s)
		}
		return
	}
	from := rounds[max(0, last-1)]
	if s.Parent < 0 || s.Parent >= len(from.Population.Samples) {
		t.Fatalf("round %d: the parent of %+v is none of %d", last+1, s, len(from.Population.Samples))
	}
	parent := from.Population.Samples[s.Parent]
	if last > 0 && from.Selection.Copies[s.Parent] == 0 {
		t.Fatalf("round %d: the parent of %+v was not selected", last+1, s)
	}
	if s.Kind == Kept && (s.Text != parent.Text || s.Generation != parent.Generation) ||
		s.Kind != Kept && s.Generation != parent.Generation+1 {
		t.Fatalf("round %d: %+v of the parent %+v", last+1, s, parent)
	}
}

// Aug-PE's next population begins with the selected samples. After a round in which no count exceeds the threshold,
// they are the ones that the round before selected.
func TestAugPEKeepsTheSelected(t *testing.T) {
	e := open(t, &scribe{}, "private_evolution.variant=aug_pe")
	rounds := evolve(t, e, 4, 8)
	for i, r := range rounds[1:] {
		want := survivingTexts(rounds[i])
		if got := r.Population.Texts()[:12]; !slices.Equal(got, want) {
			t.Errorf("round %d begins with %q, want %q", i+2, got, want)
		}
	}
	if !rounds[2].Selection.Kept || !slices.Equal(survivingTexts(rounds[2]), survivingTexts(rounds[1])) {
		t.Errorf("round 3 kept %q, round 2 had %q", survivingTexts(rounds[2]), survivingTexts(rounds[1]))
	}
}

func survivingTexts(r Round) []string {
	var out []string
	for _, i := range r.Selection.Indices() {
		out = append(out, r.Population.Samples[i].Text)
	}
	return out
}

// Equal seeds give equal rounds, also where a run continues from stored rows, and other seeds give others.
func TestEqualSeedsGiveEqualEvolutions(t *testing.T) {
	for _, set := range everyKind {
		a := evolve(t, open(t, &scribe{}, set...), 4, 1)
		if b := evolve(t, open(t, &scribe{}, set...), 4, 1); !reflect.DeepEqual(a, b) {
			t.Errorf("%v: two runs differ", set)
		}
		if b := evolve(t, open(t, &scribe{}, append(set, "seed=2")...), 4, 1); reflect.DeepEqual(a, b) {
			t.Errorf("%v: the seed changes nothing", set)
		}
		r := fromRows(3, rowsOf(a[2]))
		next, err := open(t, &scribe{}, set...).Next(context.Background(), r.Population, r.Selection)
		if err != nil || !reflect.DeepEqual(next, a[3].Population) {
			t.Errorf("%v: resumed, round 4 differs (%v)", set, err)
		}
	}
}

// table is an encoder that knows the vectors of its texts.
type table struct {
	rows map[string][]float32
	dim  int
}

func (e table) Name() string { return "table" }
func (e table) Dim() int     { return e.dim }
func (e table) Encode(texts []string) (embedding.Matrix, error) {
	m := embedding.NewMatrix(len(texts), e.dim)
	for i, text := range texts {
		row, ok := e.rows[text]
		if !ok {
			return m, fmt.Errorf("no vector for %q", text)
		}
		copy(m.Row(i), row)
	}
	return m, nil
}

// counter writes "PARENT/1", "PARENT/2", … for the first, second, … variation of a text, and nothing for the third.
type counter struct{}

func (counter) Write(_ context.Context, requests []Request, _ uint64) ([]string, error) {
	seen := map[string]int{}
	out := make([]string, len(requests))
	for i, r := range requests {
		if seen[r.Parent]++; seen[r.Parent] != 3 {
			out[i] = fmt.Sprintf("%s/%d", r.Parent, seen[r.Parent])
		}
	}
	return out, nil
}

// With a look-ahead a sample's vector is the plain mean of its variations' vectors, whose length is not 1; an empty
// variation counts as the sample itself. Without, it is the sample's own.
func TestEmbeddings(t *testing.T) {
	encoder := table{dim: 2, rows: map[string][]float32{
		"a": {1, 0}, "a/1": {0, 1}, "a/2": {-1, 0}, "a/4": {0.5, 0.5},
		"b": {0, 0.25}, "b/1": {0, 1}, "b/2": {1, 1}, "b/4": {1, -1},
	}}
	p := Population{Round: 1, Samples: []Sample{{Text: "a", Parent: -1, Kind: Public},
		{Text: "b", Parent: -1, Kind: Public}}}
	for lookAhead, want := range map[int][]float32{
		0: {1, 0, 0, 0.25},
		1: {0, 1, 0, 1},
		2: {-0.5, 0.5, 0.5, 1},
		4: {0.125, 0.375, 0.5, 0.3125}, // the third is empty
	} {
		e := open(t, counter{})
		e.rules.lookAhead = lookAhead
		got, err := e.Embeddings(context.Background(), p, encoder, nil)
		if err != nil || got.Rows != 2 || got.Dim != 2 || !slices.Equal(got.Data, want) {
			t.Errorf("look-ahead %d: %v %v, want %v", lookAhead, got, err, want)
		}
	}
	delete(encoder.rows, "a/1")
	e := open(t, counter{})
	e.rules.lookAhead = 1
	if _, err := e.Embeddings(context.Background(), p, encoder, nil); err == nil ||
		!strings.Contains(err.Error(), "a/1") {
		t.Errorf("the encoder's error is lost: %v", err)
	}
}

// What a request quotes comes from other texts, at most generate.examples with the parent.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		kind             Kind
		examples, quotes int
	}{{Fill, 0, 0}, {Fill, 1, 0}, {Fill, 3, 2}, {Fill, 100, 11}, {Rephrase, 3, 0}, {Blank, 3, 0}} {
		w := &scribe{}
		e := open(t, w, fmt.Sprintf("generate.examples=%d", c.examples), "private_evolution.variant=aug_pe",
			"private_evolution.variation="+string(c.kind))
		used := map[string]bool{}
		texts, samples := datasets.Strings(public(12)), make([]Sample, 12)
		for i, text := range texts {
			samples[i].Text = text
		}
		written, err := e.write(context.Background(), samples, 2, 1, "vary")
		if err != nil || len(written) != 24 {
			t.Fatal(written, err)
		}
		for i, r := range w.calls[0] {
			distinct := map[string]bool{r.Parent: true}
			for _, q := range r.Quotes {
				distinct[q] = slices.Contains(texts, q)
			}
			used[r.Style] = true
			blanks := strings.Count(r.Blanked, blank)
			if r.Kind != c.kind || r.Parent != texts[i%12] || len(r.Quotes) != c.quotes ||
				len(distinct) != c.quotes+1 || (r.MaskShare == 0.5 && r.Passes == 1) != (c.kind == Fill) ||
				(r.Style == "") != (c.kind == Fill) || blanks != map[Kind]int{Blank: 4}[c.kind] {
				t.Fatalf("%d examples, request %d: %+v", c.examples, i, r)
			}
		}
		if c.kind != Fill && len(used) < 4 {
			t.Errorf("%s: 24 variations are in the styles %v", c.kind, used)
		}
	}
}

// A writer that fails stops the round with an error that names it.
func TestWriterErrors(t *testing.T) {
	broken := errors.New("out of memory")
	e := open(t, failing{broken})
	p, err := e.Start(context.Background(), public(3))
	if err != nil {
		t.Fatal(err)
	}
	s := Selection{Copies: slices.Repeat([]int{1}, 12)}
	_, err = e.Next(context.Background(), p, s)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "round 1") {
		t.Errorf("the next population: %v", err)
	}
	if _, err := e.Expand(context.Background(), public(3), 2, "1"); !errors.Is(err, broken) {
		t.Errorf("the synthetic set: %v", err)
	}
}

type failing struct{ err error }

func (w failing) Write(context.Context, []Request, uint64) ([]string, error) { return nil, w.err }

// The cut falls anywhere, and the mean share of the dropped words is the one that is set.
func TestBeginning(t *testing.T) {
	words := make([]string, 1000)
	for i := range words {
		words[i] = fmt.Sprint(i)
	}
	text := "  " + strings.Join(words, " \n")
	for _, share := range []float64{0.1, 0.3, 0.5, 0.9, 1} {
		random := rng.New(4, "share")
		const n = 4000
		sum, squares, least := 0.0, 0.0, 1.0
		for range n {
			kept := strings.Fields(beginning(text, share, random))
			if len(kept) == len(words) || !slices.Equal(kept, words[:len(kept)]) {
				t.Fatalf("%d words were kept", len(kept))
			}
			dropped := 1 - float64(len(kept))/float64(len(words))
			sum, squares, least = sum+dropped, squares+dropped*dropped, min(least, 1-dropped)
		}
		mean := sum / n
		if e := math.Sqrt((squares/n - mean*mean) / n); math.Abs(mean-share) > 4*e+1e-3 {
			t.Errorf("share %g: dropped %g ± %g", share, mean, e)
		}
		if least > 0.1 {
			t.Errorf("share %g: at least %g of the words are always kept", share, least)
		}
	}
	if got := beginning("word", 0.3, rng.New(1)); got != "" {
		t.Errorf("of one word is left %q", got)
	}
	if got := beginning("", 0.3, rng.New(1)); got != "" {
		t.Errorf("of no word is left %q", got)
	}
}

func TestSurvivors(t *testing.T) {
	population := func(texts ...string) (p Population) {
		for _, text := range texts {
			p.Samples = append(p.Samples, Sample{Text: text})
		}
		return p
	}
	rounds := []Round{
		{population("a", "b", "a", "c"), Selection{Copies: []int{1, 0, 2, 1}}},
		{population("d", "a", "e", "f"), Selection{Copies: []int{0, 3, 1, 0}}},
		{population("g", "h", "i", "j"), Selection{Copies: []int{1, 1, 1, 1}, Kept: true}},
	}
	e := open(t, &scribe{})
	for _, c := range []struct {
		rounds []Round
		want   []string
	}{
		{rounds, []string{"a", "c", "a", "e"}},
		{rounds[:1], []string{"a", "c"}},
		{rounds[2:], []string{"g", "h", "i", "j"}},
		{nil, nil},
	} {
		if got := datasets.Strings(e.Survivors(c.rounds)); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestLabels: every sample has the label of its public text, also after variations, and is quoted with samples of its
// label alone; so are the survivors, in their proportion.
func TestLabels(t *testing.T) {
	for _, set := range everyKind {
		w := &scribe{blank: 0.2}
		e := open(t, w, set...)
		rounds := evolveFrom(t, e, labelled(30), 4, 1)
		labels := map[string]string{}
		for _, t := range labelled(30) {
			labels[t.Text] = t.Label
		}
		for n, r := range rounds {
			for i, s := range r.Population.Samples {
				if n > 0 {
					if parent := rounds[n-1].Population.Samples[s.Parent]; parent.Label != s.Label {
						t.Fatalf("%s: round %d: sample %d is %q, its parent %q", set, n+1, i, s.Label, parent.Label)
					}
				}
				if label, ok := labels[s.Text]; s.Label == "" || ok && label != s.Label {
					t.Fatalf("%s: round %d: sample %d is %q", set, n+1, i, s.Label)
				}
				labels[s.Text] = s.Label
			}
			if got := fromRows(r.Population.Round, rowsOf(r)); !reflect.DeepEqual(got, r) {
				t.Errorf("%s: rows change the round", set)
			}
		}
		survivors := e.Survivors(rounds)
		if _, err := e.Expand(context.Background(), survivors, 300, "1"); err != nil {
			t.Fatal(err)
		}
		odd, asked := 0, 0
		for _, call := range w.calls {
			for _, r := range call {
				for _, q := range append(r.Quotes, r.Parent) {
					if q != "" && labels[q] != r.Label || r.Label == "" {
						t.Fatalf("%s: %q is quoted for the label %q", set, q, r.Label)
					}
				}
				if r.Kind == Expand {
					asked++
					odd += map[string]int{"odd": 1}[r.Label]
				}
			}
		}
		want := 0
		for _, s := range survivors {
			want += map[string]int{"odd": 1}[s.Label]
		}
		if got, share := float64(odd)/float64(asked), float64(want)/float64(len(survivors)); asked != 300 ||
			got < share-0.1 || got > share+0.1 {
			t.Errorf("%s: %.2f of %d written texts are odd, %.2f of what was selected", set, got, asked, share)
		}
	}
}

func TestExpand(t *testing.T) {
	w := &scribe{}
	e := open(t, w, "generate.examples=3")
	survivors := public(9)
	a, err := e.Expand(context.Background(), survivors, 200, "1")
	if err != nil || len(a) != 200 {
		t.Fatal(len(a), err)
	}
	quoted := map[string]int{}
	for _, r := range w.calls[0] {
		if r.Kind != Expand || len(r.Quotes) != 3 || r.Parent != "" || r.Beginning != "" {
			t.Fatalf("%+v", r)
		}
		slices.Sort(r.Quotes)
		if len(slices.Compact(r.Quotes)) != 3 {
			t.Fatalf("a text is quoted twice: %q", r.Quotes)
		}
		for _, q := range r.Quotes {
			quoted[q]++
		}
	}
	if len(quoted) != len(survivors) {
		t.Errorf("%d of %d survivors are quoted", len(quoted), len(survivors))
	}
	if b, err := e.Expand(context.Background(), survivors, 200, "1"); err != nil || !slices.Equal(a, b) {
		t.Errorf("the same part differs (%v)", err)
	}
	if b, err := e.Expand(context.Background(), survivors, 200, "2"); err != nil || slices.Equal(a, b) {
		t.Errorf("another part is the same (%v)", err)
	}
	if _, err := e.Expand(context.Background(), nil, 1, "1"); err == nil {
		t.Error("nothing was expanded")
	}
}

// The settings that a configuration admits are those that the code knows, and no others.
func TestSettingsAgreeWithConfigs(t *testing.T) {
	for key, values := range map[string][]string{
		"variant": {PreText, AugPE}, "variation": {"", string(Fill), string(Rephrase), string(Blank)},
	} {
		c := configured(t)
		if err := c.Set("private_evolution."+key, "other"); err != nil {
			t.Fatal(err)
		}
		slices.Sort(values)
		err := c.Validate()
		if err == nil {
			t.Fatalf("%s=other is valid", key)
		}
		_, list, _ := strings.Cut(err.Error(), "available: ")
		admitted := strings.Split(strings.TrimSpace(list), ", ")
		slices.Sort(admitted)
		if !slices.Equal(admitted, values) {
			t.Errorf("%s: the configuration admits %q, the code %q", key, admitted, values)
		}
	}
}

func TestStartRefusesPublicTextsThatAreNone(t *testing.T) {
	for _, texts := range [][]datasets.Text{nil, {{Text: " \t"}}} {
		if _, err := open(t, &scribe{}).Start(context.Background(), texts); err == nil {
			t.Errorf("started from %q", texts)
		}
	}
}

// Public texts are drawn with replacement: of as many as the population has, some come twice, and there may be fewer.
func TestStartDrawsWithReplacement(t *testing.T) {
	for _, n := range []int{5, 12} {
		p, err := open(t, &scribe{}).Start(context.Background(), public(n))
		if err != nil {
			t.Fatal(err)
		}
		texts := p.Texts()
		slices.Sort(texts)
		if distinct := len(slices.Compact(texts)); len(p.Samples) != 12 || distinct > min(n, 11) || distinct < 2 {
			t.Errorf("of %d public texts, %d make a population of %d", n, distinct, len(p.Samples))
		}
	}
}

// PrE-Text begins with public texts of more than 20 words, where there are as many as its population, and Aug-PE with
// all.
func TestFirstPublicTexts(t *testing.T) {
	var texts []datasets.Text
	for i := range 15 { // twelve of 21 words, three of 20
		texts = append(texts, datasets.Text{Text: strings.Repeat("word ", 20+min(1, i/3))})
	}
	generator := openFilling(t, "bert", 0, 0).generator
	p, err := sampling.NewPrompter(generator, configs.Generate{Examples: 1}, configs.Data{MaxTokens: 200}, texts, 400,
		10)
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]int{"population=12": 12, "population=13": 15, "variant=aug_pe": 15} {
		m := Method{Env: method.Env{Config: configured(t, "private_evolution."+set), Prompter: p}}
		if got := m.public(); len(got) != want {
			t.Errorf("%s: the population is drawn from %d texts, want %d", set, len(got), want)
		}
	}
}

// The rules are as in the published codes, and the keys change Aug-PE's.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want rules
	}{
		{nil, rules{variation: Fill, lookAhead: 4, share: 0.3, passes: 2}},
		{[]string{"variations=3"}, rules{variation: Fill, lookAhead: 4, share: 0.3, passes: 2}},
		{[]string{"variant=aug_pe"}, rules{variation: Rephrase, variations: 6, byRank: true, share: 0.5, passes: 1,
			ends: true}},
		{[]string{"variant=aug_pe", "variations=3", "variation=blank"},
			rules{variation: Blank, variations: 3, byRank: true, share: 0.5, passes: 1, ends: true}},
	} {
		for i := range c.set {
			c.set[i] = "private_evolution." + c.set[i]
		}
		if got := rulesOf(settings.Of(configured(t, c.set...))); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.set, got, c.want)
		}
	}
}

// A text gives a vote to its nearest sample.
func TestVotesBound(t *testing.T) {
	for _, c := range []struct {
		set   []string
		name  string
		bound float64
	}{
		{nil, "votes/l2/1/total", 1},
		{[]string{"scoring.clip_norm=80"}, "votes/l2/1/total", 80},
	} {
		if o := votes(configured(t, c.set...)); o.Name() != c.name || o.Bound != c.bound {
			t.Errorf("%v: %s with the bound %g, want %s with %g", c.set, o.Name(), o.Bound, c.name, c.bound)
		}
	}
}

// TestPaperPresets: the presets of the paper have the published settings of its baselines: PrE-Text by a masked model,
// with the 20 rounds of the paper's comparison (alone it has 11), Aug-PE for long texts. Temperatures are 1, as in
// Aug-PE's rephrasing on PubMed.
func TestPaperPresets(t *testing.T) {
	for preset, want := range map[string]struct {
		rules     rules
		n, voted  int
		threshold float64
		masked    bool
		examples  int
		rounds    int
		longest   int // tokens of a public text
		tokens    int // that are written at most
	}{
		"paper-biorxiv": {rules{variation: Fill, lookAhead: 4, share: 0.3, passes: 2}, 1024, 1024, 0.1626, true, 3, 20,
			64, 85},
		"paper-congress": {rules{variation: Fill, lookAhead: 4, share: 0.3, passes: 2}, 1024, 1024, 0.1626, true, 3, 20,
			64, 85},
		"paper-pubmed": {rules{variation: Rephrase, variations: 6, byRank: true, share: 0.5, passes: 1, ends: true},
			2000, 14000, 0, false, 2, 10, 512, 680},
	} {
		c, err := configs.Load(configs.LoadOptions{Preset: preset,
			Set: []string{"data.private=a", "data.public=b", "model.path=c",
				"scoring.encoder=latent", "downstream.model=d", "method=private_evolution"}})
		if err != nil {
			t.Fatal(err)
		}
		e := settings.Of(*c)
		if got := rulesOf(e); got != want.rules || e.Population != want.n || got.votedOn(e.Population) != want.voted ||
			e.Threshold != want.threshold || e.fillsMasks() != want.masked || c.Generate.Examples != want.examples ||
			c.Trainer.Rounds != want.rounds || c.Data.MaxTokens != want.longest ||
			c.Generate.MaxNewTokens != want.tokens || c.Generate.Temperature != 1 ||
			c.Synthetic.Temperature != 1 {
			t.Errorf("%s: %+v, %+v", preset, got, e)
		}
	}
}
