package downstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/datasets/clients"
)

func TestMacroF1(t *testing.T) {
	named := func(pairs ...Named) []Score { return []Score{{Tokens: len(pairs), Named: pairs}} }
	for _, c := range []struct {
		scores []Score
		want   float64 // scikit-learn's f1_score(average="macro", zero_division=0)
	}{
		{named(Named{0, 0}, Named{1, 1}), 1},
		{named(Named{0, 1}, Named{1, 0}), 0},
		// Label 0: tp 2, fp 1, fn 1: 2/3. Label 1: tp 1, fp 1, fn 0: 2/3. Label 2: tp 0, fn 1: 0. Label 3, given only:
		// 0.
		{append(named(Named{0, 0}, Named{0, 0}, Named{0, 1}), named(Named{1, 1}, Named{2, 0})...),
			(2./3 + 2./3 + 0) / 3},
		{named(Named{0, 0}, Named{0, 3}), (2. / 3) / 2},
	} {
		if got := MacroF1(c.scores); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %g, want %g", c.scores, got, c.want)
		}
	}
}

// A long text is cut before its row's end, which the classifier reads; texts of other labels are left out.
func TestClassEncoder(t *testing.T) {
	_, tok, eos := world(t)
	texts := []string{"the cat sees the hat.", "a", "the red boat turns two stones at noon."}
	for _, form := range rowForms {
		e := newClassEncoder(Encoder{Tokenizer: tok, Rows: form, Begin: 7, End: eos, Length: 5}, []string{"x", "y"})
		rows := e.Encode(texts, []string{"y", "z", "x"})
		if len(rows) != 2 || rows[0].Class != 1 || rows[1].Class != 0 {
			t.Fatalf("%s: %+v", form, rows)
		}
		for i, text := range []string{texts[0], texts[2]} {
			want := slices.Concat([]int32{map[string]int32{Line: eos, Document: 7}[form]}, tok.Encode(text)[:3],
				e.ending())
			if !slices.Equal(rows[i].Tokens, want) {
				t.Errorf("%s: %q is %v, want %v", form, text, rows[i].Tokens, want)
			}
		}
	}
}

// labelledWorld has clients and public text whose labels follow from a word; of the public text, one in five labels is
// wrong. Some train clients have a label that no public and no test text has.
func labelledWorld() (p *clients.Population, public Source) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(label string) string {
		places := map[string][]string{"sea": {"in the harbour", "near the harbour wall"},
			"land": {"in the garden", "at noon"}, "odd": {"for a while"}}[label]
		return fmt.Sprintf("the old house sees %s %s.", []string{"the hat", "two stones", "the river"}[random.IntN(3)],
			places[random.IntN(len(places))])
	}
	labels := []string{"sea", "land"}
	p = &clients.Population{}
	for i := range 40 {
		c := clients.Client{ID: fmt.Sprint(i), Split: []clients.Split{clients.Train, clients.Train, clients.Validation,
			clients.Test}[i%4]}
		for range 4 {
			label := labels[random.IntN(2)]
			if i == 0 {
				label = "odd"
			}
			c.Texts, c.Labels = append(c.Texts, text(label)), append(c.Labels, label)
		}
		p.Clients = append(p.Clients, c)
	}
	public = Source{Key: Public, Name: "public text"}
	for i := range 60 {
		label := labels[i%2]
		public.Texts = append(public.Texts, text(label))
		if i%5 == 0 {
			label = labels[1-i%2]
		}
		public.Labels = append(public.Labels, label)
	}
	return p, public
}

func TestClassification(t *testing.T) {
	w, _, _ := world(t)
	p, public := labelledWorld()
	turned := Source{Key: "turned", Name: "every label wrong"}
	for i, text := range clients.Texts(p.Split(clients.Validation)) {
		turned.Texts = append(turned.Texts, text)
		label := map[string]string{"sea": "land", "land": "sea"}[clients.Labels(p.Split(clients.Validation))[i]]
		turned.Labels = append(turned.Labels, label)
	}
	u := Suite{ModelDir: w.Device, Population: p, Draws: 100, ReferencePrivate: true, Options: options(40),
		Labels: []string{"land", "sea"}, Zero: &public, Main: "turned"}
	run := func(u Suite) []Result {
		t.Helper()
		r, err := u.Run(t.Context(), []Source{turned})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := run(u)
	zero, wrong, private := plain[0], plain[1], plain[2]
	if zero.Key != Public || zero.Texts != 60 || zero.BestStep == 0 || private.Key != Private || private.Skipped != 4 ||
		private.Texts != 76 {
		t.Fatalf("%+v", plain)
	}
	if private.Accuracy < 0.95 || *private.MacroF1 < 0.95 || zero.Accuracy < 0.7 || wrong.Accuracy > zero.Accuracy {
		t.Errorf("accuracies %g, %g, %g", zero.Accuracy, wrong.Accuracy, private.Accuracy)
	}
	if zero.Perplexity != 0 || zero.PerplexityCI != nil || zero.MacroF1CI == nil ||
		wrong.GapClosed == nil && private.Accuracy != zero.Accuracy {
		t.Errorf("figures: %+v", zero)
	}
	if zero.Deficit == nil || *zero.Deficit != wrong.Accuracy-zero.Accuracy || zero.DeficitCI == nil {
		t.Errorf("the main source is not compared with public text: %+v", zero)
	}

	// A cache, read back, and a suite that was ended in the middle give the same; other labels of one text do not.
	defer func(d time.Duration) { checkpointEvery = d }(checkpointEvery)
	checkpointEvery = 0
	u.Cache, u.CacheKey = filepath.Join(t.TempDir(), "cache"), []byte("secret")
	ctx, cancel := context.WithCancel(t.Context())
	u.Progress = func(done, planned int) {
		if done > planned/2 {
			cancel()
		}
	}
	if _, err := u.Run(ctx, []Source{turned}); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	u.Progress = nil
	if resumed := run(u); !reflect.DeepEqual(resumed, plain) {
		t.Errorf("resumed:\n%+v\n%+v", resumed, plain)
	}
	u.Progress = func(done, _ int) {
		if done > 0 {
			t.Error("a model was trained again")
		}
	}
	if again := run(u); !reflect.DeepEqual(again, plain) {
		t.Errorf("read back:\n%+v\n%+v", again, plain)
	}
	again := u.Progress
	u.Progress = nil
	before, _ := filepath.Glob(filepath.Join(u.Cache, "*.json"))
	turned.Labels = slices.Clone(turned.Labels)
	turned.Labels[0] = map[string]string{"sea": "land", "land": "sea"}[turned.Labels[0]]
	run(u)
	if after, _ := filepath.Glob(filepath.Join(u.Cache, "*.json")); len(after) != len(before)+1 {
		t.Errorf("another label leaves %d files of %d", len(after), len(before))
	}

	sources := []Source{turned, {Key: "right", Name: "private", Texts: clients.Texts(p.Split(clients.Train)),
		Labels: clients.Labels(p.Split(clients.Train))}}
	points, err := u.Validate(t.Context(), sources)
	if err != nil || points[1].Accuracy < 0.95 || points[0].Accuracy >= points[1].Accuracy {
		t.Errorf("on validation clients: %+v (%v)", points, err)
	}
	u.Progress = again
	if again, err := u.Validate(t.Context(), sources); err != nil || !reflect.DeepEqual(again, points) {
		t.Errorf("on validation clients, read back: %+v, %+v (%v)", again, points, err)
	}
	u.Cache, u.Progress = "", nil

	// A label that a test client alone has changes the accuracy of its text and nothing else: no model has the label.
	odd := *p
	odd.Clients = slices.Clone(p.Clients)
	at := slices.IndexFunc(odd.Clients, func(c clients.Client) bool { return c.Split == clients.Test })
	odd.Clients[at].Label, odd.Clients[at].Labels = "odd", nil
	v := u
	v.Population, v.Small, v.Kept = &odd, filepath.Join(t.TempDir(), "small"), "turned"
	for i, r := range run(v) {
		if own := plain[i]; r.Accuracy > own.Accuracy || r.BestStep != own.BestStep || *r.MacroF1 >= *own.MacroF1 {
			t.Errorf("with a label of a test client alone: %+v, without it %+v", r, own)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(v.Small, "config.json")); err != nil || strings.Contains(string(raw), "odd") {
		t.Errorf("the small model tells a test client's label (%v): %s", err, raw)
	}

	// Without public text there is no ε = 0 point and no gap; mistakes are named.
	u.Zero = nil
	for _, r := range run(u) {
		if r.Key == Public || r.GapClosed != nil {
			t.Errorf("without public text: %+v", r)
		}
	}
	for want, change := range map[string]func(u *Suite, s *Source){
		"3 texts with 1": func(_ *Suite, s *Source) {
			s.Texts, s.Labels = []string{"a", "b", "c"}, []string{"sea"}
		},
		"none of its 1 texts": func(_ *Suite, s *Source) { s.Texts, s.Labels = []string{"a"}, []string{"odd"} },
	} {
		v, s := u, turned
		change(&v, &s)
		if _, err := v.Run(t.Context(), []Source{s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
