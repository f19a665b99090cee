package lanfl

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/eval/incontext"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

// TestClaimEnumerated: with n = 4 texts and k = 2 of them behind a sample, one more text moves the probability of any
// set of answers of any deterministic model by 2/5 at most, and some model reaches it.
func TestClaimEnumerated(t *testing.T) {
	pairs := func(n int) (list [][2]int) {
		for a := range n {
			for b := range a {
				list = append(list, [2]int{b, a})
			}
		}
		return list
	}
	with := pairs(5)
	most, holdsNew := 0.0, 0
	for i, pair := range with {
		if pair[1] == 4 {
			holdsNew |= 1 << i // the answer "contains the new element"
		}
	}
	for answers := range 1 << len(with) { // which pairs lead to an answer of the set
		p, q := 0.0, 0.0
		for i, pair := range with {
			if answers>>i&1 == 1 {
				q += 1.0 / float64(len(with))
				if pair[1] < 4 {
					p += 1.0 / float64(len(pairs(4)))
				}
			}
		}
		most = max(most, math.Abs(p-q))
		if answers == holdsNew && (p != 0 || math.Abs(q-0.4) > 1e-12) {
			t.Errorf("the new text is behind the sample with probability %g and %g, want 0 and 2/5", p, q)
		}
		c := newClaim(2, 4, 1)
		if p > math.Exp(c.Epsilon)*q+1e-12 || q > math.Exp(c.Epsilon)*p+c.Delta+1e-12 {
			t.Fatalf("set %b: probabilities %g and %g break ε = %g, δ = %g", answers, p, q, c.Epsilon, c.Delta)
		}
	}
	if math.Abs(most-0.4) > 1e-12 || math.Abs(newClaim(2, 4, 1).Delta-0.4) > 1e-12 {
		t.Errorf("probabilities differ by %g at most, want 2/5", most)
	}
	if c := newClaim(3, 1000, 100); math.Abs(c.Delta-0.2997) > 1e-4 || math.Abs(c.Epsilon-0.3002) > 1e-4 ||
		!strings.Contains(c.String(), "Not private") {
		t.Errorf("3 of 1000 texts, 100 samples: %v", c)
	}
}

// TestDrawn: each of the n texts is behind a sample equally often, and places are rising.
func TestDrawn(t *testing.T) {
	counts := make([]int, 5)
	r := rng.New(1, "drawn")
	const draws = 5000
	for range draws {
		places := drawnOf(5, 2, r)
		if len(places) != 2 || places[0] >= places[1] {
			t.Fatal(places)
		}
		for _, p := range places {
			counts[p]++
		}
	}
	square := 0.0
	for _, n := range counts {
		square += math.Pow(float64(n)-draws*0.4, 2) / (draws * 0.4)
	}
	if square > 20 { // χ², 4 degrees of freedom: 5·10⁻⁴
		t.Errorf("counts %v", counts)
	}
}

// TestChoose: the specification's example.
func TestChoose(t *testing.T) {
	local := map[int]float64{1: .5, 3: .3, 5: .35}
	others := map[int]float64{0: .3, 1: .28, 2: .25, 3: .4}
	c, err := choose([]int{1, 3, 5}, 9, func(own, synthetic int) (float64, error) {
		if synthetic == 0 {
			return local[own], nil
		}
		if own+synthetic != 3 {
			t.Errorf("%d and %d examples", own, synthetic)
		}
		return others[synthetic], nil
	})
	if err != nil || c != (Choice{3, 2, .3, .25}) || !c.Helped() {
		t.Errorf("%+v (%v)", c, err)
	}
}

// TestFilter: a text as it is has BLEU 1 and is dropped; another one stays.
func TestFilter(t *testing.T) {
	own := []incontext.Example{{Text: "a long and dull film about nothing"}}
	if !tooLike("a long and dull film about nothing", own, 0.99) ||
		tooLike("what a wonderful evening it was", own, 0.1) {
		t.Error("the filter decides otherwise")
	}
}

// TestFederate: the whole exchange on a labelled world, with a model that writes; asked again, it gives the same.
func TestFederate(t *testing.T) {
	w := testworld.Make(t)
	c := w.Config
	if err := c.Set("data.private", w.LabelledPrivate); err != nil {
		t.Fatal(err)
	}
	if err := c.Set("downstream.length", "6"); err != nil {
		t.Fatal(err)
	}
	run := func(change func(*Options)) (*Outcome, []sharedRow, error) {
		o := Options{Participants: 2, Records: 2, Samples: 3, BLEU: 0.9, Shots: []int{0, 1, 2}, Repeats: 2, Tests: 3,
			Out: t.TempDir()}
		change(&o)
		e, err := Federate(context.Background(), configs.Config(c), o)
		if err != nil {
			return nil, nil, err
		}
		list, err := rows.Read[sharedRow](filepath.Join(o.Out, sharedFile))
		return e, list, err
	}
	e, list, err := run(func(*Options) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Participants) != 2 || !strings.Contains(e.Private, "Not private") {
		t.Errorf("%+v", e)
	}
	sum := 0
	for _, p := range e.Participants {
		if p.Malformed+p.TooLike+p.Shared != 3 || p.Best > p.Local || p.Synthetic > p.Shots {
			t.Errorf("%+v", p)
		}
		sum += p.Shared
	}
	if sum != len(list) {
		t.Errorf("%d samples are shared, and %d are counted", len(list), sum)
	}
	again, same, err := run(func(*Options) {})
	if err != nil || again.Best != e.Best || !slices.Equal(same, list) {
		t.Errorf("again %+v (%v)", again, err)
	}
	short := c
	if err := c.Set("model.path", "embedded"); err != nil { // whose context is longer
		t.Fatal(err)
	}
	e, list, err = run(func(o *Options) { o.Reasoning = true })
	if err != nil || len(e.Participants) != 2 {
		t.Errorf("with reasons %+v (%v)", e, err)
	}
	if _, same, err := run(func(o *Options) { o.Reasoning = true }); err != nil || !slices.Equal(same, list) {
		t.Errorf("again with reasons: %v", err)
	}
	c = short
	for want, change := range map[string]func(*Options){
		"two or more":           func(o *Options) { o.Participants = 1 },
		"into fewer":            func(o *Options) { o.Participants = 1000 },
		"at most 1":             func(o *Options) { o.BLEU = 2 },
		"must be above 0":       func(o *Options) { o.Samples = 0 },
		"no text has the label": func(o *Options) { o.Names = map[string]string{"absent": "gone"} },
	} {
		if _, _, err := run(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestRead: a sample is of the form, with a known label, or none.
func TestRead(t *testing.T) {
	w := writer{format: incontext.Format{Names: map[string]string{"pos": "positive"}}}
	for text, want := range map[string]incontext.Example{
		" positive\nText: what  fun\n\nLabel: x": {Text: "what fun", Label: "pos"},
		" very_bad\nText: dull":                  {},
		" neg\nText: ":                           {},
		"neg":                                    {},
		" neg\nText: dull\nand long":             {Text: "dull and long", Label: "neg"},
	} {
		if got := w.read(text, []string{"pos", "neg"}); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	w.reasons = map[incontext.Example]string{}
	want := incontext.Example{Text: "what fun", Label: "pos", Reason: "It praises."}
	got := w.read(" positive\nText: what fun\nReason:  It praises.\n\nLabel: neg", []string{"pos", "neg"})
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestExplained: an example gets one reason, which begins with its label, and keeps one that it has; no reasons are
// asked for where none are wanted.
func TestExplained(t *testing.T) {
	dir, err := shipped.Dir(shipped.Generator)
	if err != nil {
		t.Fatal(err)
	}
	tok := testmodel.Tokenizer(t, dir)
	m := testmodel.Load(t, dir, lm.Options{})
	defer m.Free()
	w := writer{model: m, tokenizer: tok, format: incontext.Format{Length: 16, Tokenizer: tok}}
	examples := []incontext.Example{{Text: "a test fails", Label: "vet"},
		{Text: "x", Label: "as", Reason: "It is one."},
		{Text: "a test fails", Label: "vet"}}
	plain, err := w.explained(t.Context(), examples)
	if err != nil || !slices.Equal(plain, examples) {
		t.Errorf("%+v (%v)", plain, err)
	}
	w.reasons = map[incontext.Example]string{}
	got, err := w.explained(t.Context(), examples)
	if err != nil || !strings.HasPrefix(got[0].Reason, "The label is vet because ") || got[0] != got[2] ||
		got[1] != examples[1] || strings.Contains(got[0].Reason, "\n") || examples[0].Reason != "" {
		t.Errorf("%+v (%v)", got, err)
	}
}
