package downstream

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"popri/datasets"
	"popri/datasets/clients"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
	"popri/testkit/testworld"
)

func TestFigures(t *testing.T) {
	// A client weighs as many tokens as it has.
	scores := []Score{{Tokens: 10, Correct: 5, Loss: 20}, {Tokens: 30, Correct: 3, Loss: 60}}
	if a, p := accuracyOf(scores), perplexityOf(scores); a != 0.2 || math.Abs(p-math.Exp(2)) > 1e-12 {
		t.Errorf("accuracy %g, perplexity %g", a, p)
	}
	// 80 nats over 50 characters; 3 of 60 keystrokes saved.
	scores[0].Characters, scores[1].Characters, scores[1].Typed, scores[1].Saved = 20, 30, 60, 3
	if b, k := bitsOf(scores), savedOf(scores); math.Abs(b-80/math.Ln2/50) > 1e-12 || k != 0.05 {
		t.Errorf("%g bits a character, %g of the keystrokes saved", b, k)
	}
	// Twenty clients, whose loss at ε = 0 falls with their number: the first tenth has the last two. One has no tokens.
	var zero, other []Score
	for i := range 21 {
		zero = append(zero, Score{Tokens: min(i, 1) * 10, Loss: float64(min(i, 1) * (300 - 10*i))})
		other = append(other, Score{Tokens: min(i, 1) * 10, Loss: float64(10 * i)})
	}
	tenths := deciles(other, zero)
	if len(tenths) != 10 || math.Abs(tenths[0]-math.Exp(19.5)) > 1e-3 || math.Abs(tenths[9]-math.Exp(1.5)) > 1e-9 {
		t.Errorf("perplexities of tenths: %v", tenths)
	}
	if few := deciles(other[:9], zero[:9]); few != nil {
		t.Errorf("eight clients have tenths: %v", few)
	}
	at := func(correct int) []Score { return []Score{{Tokens: 100, Correct: correct}} }
	for _, c := range []struct {
		zero, correct, infinite int
		want                    float64
	}{{20, 20, 30, 0}, {20, 30, 30, 1}, {20, 25, 30, 0.5}, {20, 15, 30, -0.5}, {20, 35, 30, 1.5}} {
		if got := gapClosed(at(c.correct), at(c.zero), at(c.infinite)); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("from %d to %d, %d closes %g, want %g", c.zero, c.infinite, c.correct, got, c.want)
		}
	}
	// Accuracies of the paper's Table 1 in tenths of a percent, and what the specification derives from them: on bioRxiv
	// DP-FedAvg, DP-FTRL, Private Evolution at ε = 7 and 1, POPri; on Congressional Speeches the same.
	per1000 := func(correct int) []Score { return []Score{{Tokens: 1000, Correct: correct}} }
	for _, c := range []struct {
		zero, infinite int
		rows           []int
		percent        []float64
	}{
		{606, 722, []int{617, 618, 662, 663, 686}, []float64{9.5, 10.3, 48.3, 49.1, 69.0}},
		{684, 745, []int{692, 691, 703, 704, 713}, []float64{13.1, 11.5, 31.1, 32.8, 47.5}},
	} {
		for i, correct := range c.rows {
			got := 100 * gapClosed(per1000(correct), per1000(c.zero), per1000(c.infinite))
			if math.Abs(got-c.percent[i]) > .051 {
				t.Errorf("from %d to %d, %d closes %g %%, want %g", c.zero, c.infinite, correct, got, c.percent[i])
			}
		}
	}
	if got := gapClosed(at(20), at(20), at(20)); !math.IsNaN(got) {
		t.Errorf("a gap of nothing is closed by %g", got)
	}
}

// TestBootstrapCovers draws many populations with a known accuracy: 95 % of the intervals should hold it.
func TestBootstrapCovers(t *testing.T) {
	const populations, n = 300, 80
	random := rand.New(rand.NewPCG(1, 2))
	accuracy := func(l ...[]Score) float64 { return accuracyOf(l[0]) }
	inside, width := 0, 0.0
	for i := range populations {
		scores := make([]Score, n)
		for k := range scores {
			p := 0.2 + 0.2*random.Float64() // clients differ; the mean is 0.3
			scores[k].Tokens = 20
			for range scores[k].Tokens {
				if random.Float64() < p {
					scores[k].Correct++
				}
			}
		}
		ci, err := bootstrap(n, 200, uint64(i), accuracy, scores)
		if err != nil {
			t.Fatal(err)
		}
		if a := accuracyOf(scores); ci[0] > a || ci[1] < a {
			t.Errorf("%v does not hold the sample's own %g", ci, a)
		}
		if ci[0] <= 0.3 && 0.3 <= ci[1] {
			inside++
		}
		width += (ci[1] - ci[0]) / populations
	}
	if share := float64(inside) / populations; share < 0.90 || share > 0.99 {
		t.Errorf("%.3f of the intervals hold the truth", share)
	}
	// Standard deviation of a client's accuracy: √(p(1−p)/20 + (0.4/√12)²·(1−1/20)/4) ≈ 0.117, of the mean 0.013.
	if width < 0.04 || width > 0.06 {
		t.Errorf("intervals are %.4f wide, expected is about 0.05", width)
	}
}

func TestBootstrap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a, b := make([]Score, 50), make([]Score, 50)
	for i := range a {
		a[i] = Score{Tokens: 10 + random.IntN(50), Correct: random.IntN(10), Loss: random.Float64()}
		b[i] = a[i]
		b[i].Correct++
	}
	// Lists are drawn client by client: where one is better by the same everywhere, the difference hardly varies.
	difference := func(l ...[]Score) float64 { return accuracyOf(l[1]) - accuracyOf(l[0]) }
	paired, err := bootstrap(len(a), 500, 1, difference, a, b)
	if err != nil || paired[0] <= 0 || paired[1]-paired[0] > 0.02 {
		t.Errorf("%v, %v", paired, err)
	}
	if same, err := bootstrap(len(a), 500, 1, difference, a, a); err != nil || same != (Interval{0, 0}) {
		t.Errorf("%v, %v", same, err)
	}
	again, _ := bootstrap(len(a), 500, 1, difference, a, b)
	other, _ := bootstrap(len(a), 500, 2, difference, a, b)
	if again != paired || other == paired {
		t.Errorf("seeds: %v, again %v, another %v", paired, again, other)
	}
	// Two trainings of which one is right everywhere and one nowhere: their draws are all that varies.
	right, wrong := Score{Tokens: 10, Correct: 10}, Score{Tokens: 10}
	accuracy := func(l ...[]Score) float64 { return accuracyOf(l[0]) }
	both := append(slices.Repeat([]Score{right}, 50), slices.Repeat([]Score{wrong}, 50)...)
	if all, err := bootstrap(50, 500, 1, accuracy, both); err != nil || all != (Interval{0, 1}) {
		t.Errorf("two trainings: %v, %v", all, err)
	}
	if sum := folded(both, 50); !reflect.DeepEqual(sum, slices.Repeat([]Score{{Tokens: 20, Correct: 10}}, 50)) {
		t.Errorf("both trainings of a client: %v", sum)
	}
	for _, c := range []struct {
		draws int
		lists [][]Score
	}{{0, [][]Score{a}}, {10, [][]Score{{}}}, {10, [][]Score{a, b[:3]}}} {
		if _, err := bootstrap(len(a), c.draws, 1, difference, c.lists...); err == nil {
			t.Errorf("%d draws of %d lists are no error", c.draws, len(c.lists))
		}
	}
	if nan, err := bootstrap(len(a), 10, 1, func(...[]Score) float64 { return math.NaN() }, a); err != nil ||
		!math.IsNaN(nan[0]) {
		t.Errorf("%v, %v", nan, err)
	}
}

var shared struct {
	once  sync.Once
	dir   string
	world *testworld.World
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(shared.dir)
	os.Exit(code)
}

// world returns the one that all tests share and none changes, with its tokenizer and the end of text.
func world(t *testing.T) (*testworld.World, *tokenizer.Tokenizer, int32) {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "popri-world-"); shared.err == nil {
			shared.world, shared.err = testworld.New(shared.dir)
		}
	})
	w, err := shared.world, shared.err
	if err != nil {
		t.Fatal(err)
	}
	tok := testmodel.Tokenizer(t, w.Device)
	eos, _ := tok.EOS()
	return w, tok, eos
}

func TestEncode(t *testing.T) {
	_, tok, eos := world(t)
	e := Encoder{Tokenizer: tok, Rows: Line, Begin: 7, End: eos, Length: 6}
	rows := e.Encode([]string{"the cat sees the hat.", "a"})
	if len(rows) != 2 || len(rows[0].Tokens) != 6 || rows[0].Tokens[0] != eos || rows[0].Labels != nil {
		t.Errorf("%+v", rows)
	}
	if got := tok.Decode(rows[1].Tokens[1:], false); rows[1].Tokens[0] != eos || got != "a\n" {
		t.Errorf("the short text is %q", got)
	}
	e.Rows = Document
	rows = e.Encode([]string{"the cat sees the hat.", "a"})
	if short := rows[1].Tokens; len(rows[0].Tokens) != 6 || rows[0].Tokens[0] != 7 ||
		!reflect.DeepEqual(short, append(append([]int32{7}, tok.Encode("a")...), eos)) {
		t.Errorf("as documents: %+v", rows)
	}
}

func options(steps int) Options {
	return Options{Steps: steps, Batch: 8, Length: 40, Rows: Line, LearningRates: []float64{5e-3}, Schedule: "cosine",
		Warmup: 2 / float64(steps), MaxNorm: 1, EvalEvery: 4, Best: "loss", Seed: 1, Compute: tensor.Float32}
}

// tune fine-tunes a fresh device model and returns its weights as well.
func tune(t *testing.T, w *testworld.World, rows, validation []lm.Row, o Options) (best Point, curve []Point,
	loss float64, weights []float32) {
	t.Helper()
	m := testmodel.Load(t, w.Device, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer m.Free()
	err := tensor.Run(func(s *tensor.Scope) error {
		var err error
		if best, curve, err = FineTune(t.Context(), s, m, nil, rows, validation, 5e-3, o, ""); err != nil {
			return err
		}
		loss, _, err = m.Evaluate(s, validation, nil, evalTokens, nil)
		weights = s.Float32s(m.Param(m.Names()[0]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return best, curve, loss, weights
}

func TestFineTune(t *testing.T) {
	w, tok, eos := world(t)
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	e := Encoder{Tokenizer: tok, Rows: Line, End: eos, Length: 40}
	rows, validation := e.Encode(clients.Texts(p.Split(clients.Train))),
		e.Encode(clients.Texts(p.Split(clients.Validation)))
	o := options(14)

	// Text of the clients' kind lowers the loss, and the model that is left is the best of the curve.
	best, curve, loss, weights := tune(t, w, rows, validation, o)
	var steps []int
	for _, p := range curve {
		steps = append(steps, p.Step)
		if p.Loss < best.Loss {
			t.Errorf("step %d is better than the best: %g < %g", p.Step, p.Loss, best.Loss)
		}
	}
	if !reflect.DeepEqual(steps, []int{0, 4, 8, 12, 14}) {
		t.Errorf("measured at %v", steps)
	}
	if best.Step == 0 || best.Loss > curve[0].Loss-0.1 || loss != best.Loss {
		t.Errorf("the loss goes from %g to %g; the model that is left has %g", curve[0].Loss, best.Loss, loss)
	}
	if _, again, _, same := tune(t, w, rows, validation, o); !reflect.DeepEqual(again, curve) ||
		!reflect.DeepEqual(same, weights) {
		t.Error("the same seed trains another model")
	}

	// Text of another kind only harms: the starting point is the best, and is what is left.
	noise := make([]lm.Row, 20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		for range 30 {
			noise[i].Tokens = append(noise[i].Tokens, int32(random.IntN(256)))
		}
	}
	best, curve, loss, weights = tune(t, w, noise, validation, o)
	if best.Step != 0 || loss != curve[0].Loss || curve[len(curve)-1].Loss <= curve[0].Loss {
		t.Errorf("best is step %d with %g, left is %g, the curve %v", best.Step, best.Loss, loss, curve)
	}
	start := testmodel.Load(t, w.Device, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer start.Free()
	if err := tensor.Run(func(s *tensor.Scope) error {
		if !reflect.DeepEqual(s.Float32s(start.Param(start.Names()[0])), weights) {
			t.Error("the weights are not those of the start")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tensor.Run(func(s *tensor.Scope) error {
		_, _, err := FineTune(ctx, s, start, nil, rows, validation, 5e-3, o, "")
		return err
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	bad := o
	bad.EvalEvery = 0
	for _, c := range []struct {
		rows, validation []lm.Row
		o                Options
	}{{nil, validation, o}, {rows, nil, o}, {rows, validation, bad}} {
		if err := tensor.Run(func(s *tensor.Scope) error {
			_, _, err := FineTune(t.Context(), s, start, nil, c.rows, c.validation, 5e-3, c.o, "")
			return err
		}); err == nil {
			t.Errorf("%d rows, %d to validate, %+v: no error", len(c.rows), len(c.validation), c.o)
		}
	}
}

func TestSuite(t *testing.T) {
	w, _, _ := world(t)
	p, err := clients.Read(w.Private)
	if err != nil {
		t.Fatal(err)
	}
	public, err := datasets.ReadPublic(w.Public)
	if err != nil {
		t.Fatal(err)
	}
	sources := []Source{{Key: "public_all", Name: "public text", Texts: datasets.Strings(public)},
		{Key: "own", Name: "train text again", Texts: clients.Texts(p.Split(clients.Train))}}
	u := Suite{ModelDir: w.Device, Population: p, Draws: 100, ReferencePrivate: true, Options: options(12)}
	run := func(u Suite) []Result {
		t.Helper()
		r, err := u.Run(t.Context(), sources)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := run(u)
	var keys []string
	for _, r := range plain {
		keys = append(keys, r.Key)
	}
	if !reflect.DeepEqual(keys, []string{Public, "public_all", "own", Private}) || plain[0].GapClosed != nil ||
		plain[3].GapClosed != nil || plain[1].GapClosed == nil {
		t.Fatalf("%+v", plain)
	}
	// The private text itself closes the whole gap, whatever it is called.
	if own := plain[2]; own.Accuracy != plain[3].Accuracy || *own.GapClosed != 1 ||
		*own.GapClosedCI != (Interval{1, 1}) || own.BestStep != plain[3].BestStep {
		t.Errorf("the private text as a source: %+v", own)
	}
	if plain[3].Accuracy <= plain[0].Accuracy || plain[3].Perplexity >= plain[0].Perplexity {
		t.Errorf("private text does not help: %+v, %+v", plain[0], plain[3])
	}

	// Of several trainings, the first is the one that there was, and the figures are their mean.
	several := u
	several.Options.Trainings, several.Cache, several.CacheKey = 2, t.TempDir(), []byte("secret")
	for _, first := range []bool{true, false} {
		worked := 0
		several.Progress = func(done, _ int) { worked = done }
		of := run(several)
		several.Progress = nil
		if len(of[0].Accuracies) != 0 || of[0].Accuracy != plain[0].Accuracy {
			t.Errorf("ε = 0 is trained: %+v", of[0])
		}
		for i, r := range of[1:] {
			if len(r.Accuracies) != 2 || r.Accuracies[0] != plain[i+1].Accuracy || r.Accuracies[1] == r.Accuracies[0] ||
				math.Abs(r.Accuracy-(r.Accuracies[0]+r.Accuracies[1])/2) > 1e-12 || len(r.scores) != 2*several.TestClients() {
				t.Errorf("two trainings of %s: %v, mean %g; one: %g", r.Key, r.Accuracies, r.Accuracy, plain[i+1].Accuracy)
			}
		}
		if (worked > 0) != first {
			t.Errorf("the first time is %v, work %d", first, worked)
		}
	}

	// The model of one source is kept, and scores as its training did. One that is gone is trained again, whatever is in
	// the cache; one that is there is read from it.
	k := u
	k.Small, k.Kept, k.Cache, k.CacheKey = filepath.Join(t.TempDir(), "small"), "public_all", t.TempDir(), []byte("secret")
	for range 2 {
		if got := run(k); !reflect.DeepEqual(got, plain) {
			t.Errorf("keeping a model changes results:\n%+v\n%+v", got, plain)
		}
		again, err := u.Run(t.Context(), []Source{{Key: "kept", Name: "kept", Model: k.Small}})
		if err != nil || !reflect.DeepEqual(again[1].scores, plain[1].scores) {
			t.Errorf("the kept model scores otherwise: %+v (%v)", again, err)
		}
		trained := 0
		k.Progress = func(done, _ int) { trained = done }
		run(k)
		if trained > 0 {
			t.Error("a model that was there was trained again")
		}
		if err := os.RemoveAll(k.Small); err != nil {
			t.Fatal(err)
		}
		k.Progress = nil
	}

	// With adapters, the kept model is the start with the kept adapter.
	k = u
	k.Small, k.Kept, k.Options.LoRA = filepath.Join(t.TempDir(), "small"), "own", &lora.Config{Rank: 4, Alpha: 8}
	adapted := run(k)
	if adapted[2].Accuracy == plain[2].Accuracy || adapted[2].Perplexity >= adapted[0].Perplexity {
		t.Errorf("trained with adapters: %+v", adapted[2])
	}
	m := testmodel.Load(t, w.Device, lm.Options{})
	defer m.Free()
	a, err := lora.Load(filepath.Join(k.Small, "adapter"), m)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	if err := a.MergeInto(m); err != nil {
		t.Fatal(err)
	}
	e, err := u.encoder()
	if err != nil {
		t.Fatal(err)
	}
	loss, _, err := Measure(m, nil, e.Encode(clients.Texts(p.Split(clients.Test))))
	if err != nil || math.Abs(math.Exp(loss)/adapted[2].Perplexity-1) > 1e-5 {
		t.Errorf("the start with the adapter has a perplexity of %g, the kept model %g (%v)", math.Exp(loss),
			adapted[2].Perplexity, err)
	}

	// What learns from no text at all is the start.
	none, err := u.Run(t.Context(), []Source{{Key: "none", Name: "nothing"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := none[1]; r.Accuracy != none[0].Accuracy || r.Texts != 0 || *r.GapClosed != 0 {
		t.Errorf("no text: %+v", r)
	}

	// Compared with a main source, a result differs from it by the difference of accuracies, client by client.
	u.Main = "public_all"
	for i, r := range run(u) {
		switch {
		case r.Key == u.Main:
			if r.Deficit != nil || r.DeficitCI != nil {
				t.Errorf("the main source is compared with itself: %+v", r)
			}
		case r.Deficit == nil || *r.Deficit != plain[1].Accuracy-r.Accuracy ||
			!(r.DeficitCI[0] <= *r.Deficit && *r.Deficit <= r.DeficitCI[1]):
			t.Errorf("behind the main source: %+v", r)
		case i == 2 && r.DeficitCI[1]-r.DeficitCI[0] >= r.AccuracyCI[1]-r.AccuracyCI[0]+
			plain[1].AccuracyCI[1]-plain[1].AccuracyCI[0]:
			t.Errorf("the paired interval %v is as wide as two intervals of their own", r.DeficitCI)
		}
	}
	u.Main = ""

	// Without the declaration nothing is trained on private text, and no share of the gap follows from it.
	u.ReferencePrivate = false
	u.End = func(r Result) {
		if r.Key == Private {
			t.Errorf("%s was trained", r.Name)
		}
	}
	for i, r := range run(u) {
		if r.Key == Private || r.GapClosed != nil || r.GapClosedCI != nil || r.Accuracy != plain[i].Accuracy {
			t.Errorf("without the reference: %+v", r)
		}
	}
	u.ReferencePrivate, u.End = true, nil

	// With a cache the figures are the same, at first and when they are read back; other options are computed again.
	u.Cache = filepath.Join(t.TempDir(), "cache")
	if _, err := u.Run(t.Context(), sources); err == nil || !strings.Contains(err.Error(), "secret key") {
		t.Errorf("a cache without a key: %v", err)
	}
	u.CacheKey = []byte("secret")
	kept := func() int {
		found, err := filepath.Glob(filepath.Join(u.Cache, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if first := run(u); !reflect.DeepEqual(first, plain) || kept() != 3 {
		t.Errorf("%d files; the cache changes results:\n%+v\n%+v", kept(), first, plain)
	}
	u.Progress = func(done, _ int) {
		if done > 0 {
			t.Error("a model was trained again")
		}
	}
	if again := run(u); !reflect.DeepEqual(again, plain) {
		t.Errorf("read back:\n%+v\n%+v", again, plain)
	}
	u.Progress = nil
	before, _ := filepath.Glob(filepath.Join(u.Cache, "*.json"))
	u.CacheKey = []byte("another")
	run(u)
	after, _ := filepath.Glob(filepath.Join(u.Cache, "*.json"))
	if len(after) != 2*len(before) {
		t.Errorf("names of private text under two keys: %d and %d", len(before), len(after))
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			os.Remove(name)
		}
	}
	u.CacheKey = []byte("secret")
	u.Options.Seed++
	run(u)
	if kept() != 6 {
		t.Errorf("another seed leaves %d files", kept())
	}
	found, _ := filepath.Glob(filepath.Join(u.Cache, "*.json"))
	for _, f := range found {
		testfile.Write(t, f, "{")
	}
	if _, err := u.Run(t.Context(), sources); err == nil || !strings.Contains(err.Error(), u.Cache) {
		t.Errorf("a damaged cache gives %v", err)
	}

	// Without draws there are no intervals.
	u.Cache, u.Draws = "", 0
	u.Options.Steps = 1
	for _, r := range run(u) {
		if r.AccuracyCI != nil || r.PerplexityCI != nil || r.GapClosedCI != nil {
			t.Errorf("%+v", r)
		}
	}
	u.Population = &clients.Population{Clients: p.Split(clients.Train)}
	if _, err := u.Run(t.Context(), sources); err == nil || !strings.Contains(err.Error(), "0 test clients") {
		t.Errorf("no test clients: %v", err)
	}
}

// TestLikelihoods: the mean over a text's tokens, cut as in a training, without what ends its row; alike in both forms of
// rows, where they begin with the same token.
func TestLikelihoods(t *testing.T) {
	w, tok, eos := world(t)
	m := testmodel.Load(t, w.Device, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	defer m.Free()
	e := Encoder{Tokenizer: tok, Rows: Line, Begin: eos, End: eos, Length: 12}
	texts := []string{"the cat", "a small dog sees the hat before the storm in the old house near the river.", ""}
	got, err := Likelihoods(t.Context(), m, e, texts, func(int, int) {})
	if err != nil || len(got) != 3 || got[2] != 0 {
		t.Fatalf("%v (%v)", got, err)
	}
	for i, ids := range [][]int32{tok.Encode(texts[0]), tok.Encode(texts[1])[:11]} {
		loss, _, err := Measure(m, nil, []lm.Row{{Tokens: append([]int32{eos}, ids...)}})
		if err != nil || math.Abs(got[i]+loss) > 1e-5 {
			t.Errorf("text %d: %g, want %g (%v)", i, got[i], -loss, err)
		}
	}
	e.Rows = Document
	if same, err := Likelihoods(t.Context(), m, e, texts, func(int, int) {}); err != nil || !reflect.DeepEqual(same, got) {
		t.Errorf("as documents %v (%v), as lines %v", same, err, got)
	}
}
