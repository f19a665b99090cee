package dpo

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

	"popri/lora"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/trainer"
)

const testVocab = 40

// testTuner makes a small random model of two layers with an adapter. scale is the size of the initial weights.
func testTuner(t *testing.T, loss Loss, rate float64, micro int) *Tuner {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	m, err := lm.New(lm.Config{Type: "gpt2", Vocab: testVocab, Context: 48, Hidden: 32, Layers: 2, Heads: 2, Inner: 64,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true,
		EOS: []int32{0}, ScaleAttn: true}, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32},
		func() float64 { return 4 * r.NormFloat64() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	a, err := lora.New(m, lora.Config{Rank: 4, Alpha: 8}, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	tr, err := NewTuner(m, a, Options{Loss: loss, Beta: 0.5,
		Schedule:   trainer.Schedule{Kind: "constant", Peak: rate, Total: 1000},
		BatchPairs: 8, MicroPairs: micro, AdamW: trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxNorm: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func testLoss(t *testing.T, name string, p Params) Loss {
	t.Helper()
	l, err := NewLoss(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testPairs makes pairs whose chosen completions are of the lower half of the vocabulary and the rejected ones of the
// upper half.
func testPairs(n int, seed uint64) []Pair {
	r := rand.New(rand.NewPCG(seed, 1))
	ids := func(n, from, below int) (out []int32) {
		for range n {
			out = append(out, int32(from+r.IntN(below-from)))
		}
		return out
	}
	pairs := make([]Pair, n)
	for i := range pairs {
		pairs[i] = Pair{PromptIndex: i, Prompt: ids(1+r.IntN(12), 1, testVocab),
			Chosen: append(ids(1+r.IntN(6), 1, testVocab/2),
				0), Rejected: append(ids(1+r.IntN(6), testVocab/2, testVocab), 0), RejectedIndex: 1}
	}
	return pairs
}

func referenced(t *testing.T, tr *Tuner, pairs []Pair) []Pair {
	t.Helper()
	if err := tr.Reference(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	return pairs
}

func inOrder(n int) func(int) []int {
	return func(epoch int) []int { return rand.New(rand.NewPCG(3, uint64(epoch))).Perm(n) }
}

// disturb moves the adapters away from their beginning, where B is zero and with it A's gradient.
func disturb(tr *Tuner) {
	r := rand.New(rand.NewPCG(5, 5))
	x := tr.Optimizer.State()
	for _, p := range x.Params {
		for i := range p {
			p[i] += float32(0.05 * r.NormFloat64())
		}
	}
	tr.Optimizer.SetState(x)
}

// TestFirstStep: the policy still is the reference, so the loss is what a margin of 0 gives.
func TestFirstStep(t *testing.T) {
	beta := 0.3
	for name, want := range map[string]float64{"sigmoid": math.Ln2, "sigmoid_norm": math.Ln2, "cdpo": math.Ln2,
		"robust": math.Ln2, "hinge": 1, "ipo": 1 / (4 * beta * beta), "ipo_sum": 1 / (4 * beta * beta)} {
		tr := testTuner(t, testLoss(t, name, Params{Beta: beta, LabelSmoothing: 0.1}), 1e-3, 3)
		m, err := tr.Step(t.Context(), referenced(t, tr, testPairs(20, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(m.Loss-want) <= 1e-6*max(1, want)) || !(math.Abs(m.RewardsMargins) <= 1e-6) {
			t.Errorf("%s: the first loss is %v, want %v; margin %g", name, m.Loss, want, m.RewardsMargins)
		}
	}
}

// everyPair lists the indices of pairs.
func everyPair(pairs []Pair) (places []int) {
	for i := range pairs {
		places = append(places, i)
	}
	return places
}

// gradient returns loss and gradient of a step on pairs, for all parameters in turn.
func gradient(t *testing.T, tr *Tuner, pairs []Pair) (loss float64, out []float64) {
	t.Helper()
	values, err := tr.together(t.Context(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	err = tensor.Parallel(1, func(_ int, s *tensor.Scope) error {
		var m part
		grads, err := tr.pass(pairs, values, everyPair(pairs), &m)(s)
		if err != nil {
			return err
		}
		loss = m.Loss
		for _, g := range grads {
			for _, x := range g.Host() {
				out = append(out, float64(x))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return loss, out
}

// TestModelGradients: along its own direction, and along a random one, the gradient of the adapters is what differences
// of the loss give, for every loss.
func TestModelGradients(t *testing.T) {
	for _, name := range Losses() {
		for _, sft := range []float64{0, 0.4} {
			if sft > 0 && name != "sigmoid" || name == "kto_pair" { // which takes means of the update for constants
				continue
			}
			tr := testTuner(t, testLoss(t, name, Params{Beta: 0.2, LabelSmoothing: 0.1, SFT: sft}), 1e-3, 8)
			pairs := referenced(t, tr, testPairs(6, 2))
			disturb(tr)
			_, g := gradient(t, tr, pairs)
			norm := 0.0
			for _, x := range g {
				norm += x * x
			}
			norm = math.Sqrt(norm)
			start := tr.Optimizer.State().Clone()
			r := rand.New(rand.NewPCG(9, 9))
			noise := make([]float64, len(g))
			for i := range noise {
				noise[i] = r.NormFloat64() / math.Sqrt(float64(len(g)))
			}
			for what, direction := range map[string]func(i int) float64{"its own": func(i int) float64 { return g[i] / norm }, "a random": func(i int) float64 { return g[i]/norm + noise[i] }} {
				const h = 2e-2
				at := func(step float64) float64 {
					tr.Optimizer.SetState(start)
					i := 0
					x := tr.Optimizer.State()
					for _, p := range x.Params {
						for k := range p {
							p[k] += float32(step * direction(i))
							i++
						}
					}
					tr.Optimizer.SetState(x)
					loss, _ := gradient(t, tr, pairs)
					return loss
				}
				want := 0.0
				for i, x := range g {
					want += x * direction(i)
				}
				// Richardson's extrapolation takes the curvature's share out.
				wide, narrow := (at(h)-at(-h))/(2*h), (at(h/2)-at(-h/2))/h
				if got := (4*narrow - wide) / 3; !(math.Abs(got-want) <= 2e-3*math.Max(math.Abs(want), 0.05*norm)) ||
					norm < 1e-3 {
					t.Errorf("%s, SFT %g: in %s direction the loss changes by %g, the gradient says %g (norm %g)", name,
						sft, what, got, want, norm)
				}
			}
		}
	}
}

// TestGrouping: every pair is in one pass, passes keep to the limit, and the update is the same but for rounding.
func TestGrouping(t *testing.T) {
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 4)
	pairs := referenced(t, tr, testPairs(23, 3))
	disturb(tr)
	start := tr.Optimizer.State().Clone()
	var want []float64
	for _, c := range []int{23, 4, 5, 1} {
		tr.MicroPairs = c
		passes := tr.passes(pairs, 1)
		seen := slices.Sorted(slices.Values(slices.Concat(passes...)))
		if len(seen) != len(pairs) || !slices.Equal(slices.Compact(seen), seen) {
			t.Fatalf("%d at a time: the passes are %v", c, passes)
		}
		for _, pass := range passes {
			if n := len(pass); n < 1 || n > c {
				t.Errorf("%d at a time: a pass of %d pairs", c, n)
			}
		}
		again := slices.Clone(pairs)
		for i := range again {
			again[i].Reference = [2]float64{}
		}
		for i, p := range referenced(t, tr, again) {
			if math.Abs(p.Reference[0]-pairs[i].Reference[0]) > 1e-4 ||
				math.Abs(p.Reference[1]-pairs[i].Reference[1]) > 1e-4 {
				t.Fatalf("%d at a time: the reference of pair %d is %v, want %v", c, i, p.Reference, pairs[i].Reference)
			}
		}
		tr.Optimizer.SetState(start)
		tr.Optimizer.Done = trainer.Counters{}
		m, err := tr.Step(t.Context(), pairs)
		tokens := int64(0)
		for _, p := range pairs {
			for _, completion := range [][]int32{p.Chosen, p.Rejected} {
				tokens += int64(len(slices.Concat(p.Prompt, completion)))
			}
		}
		if m.NumTokens != tokens {
			t.Errorf("%d at a time: %d tokens are counted, want %d", c, m.NumTokens, tokens)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := []float64{m.Loss, m.RewardsChosen, m.RewardsRejected, m.RewardsMargins, m.Accuracy, m.LogpsChosen,
			m.LogpsRejected, m.GradNorm}
		for _, moment := range tr.Optimizer.State().M { // proportional to the gradient
			for _, x := range moment {
				got = append(got, float64(x))
			}
		}
		if want == nil {
			want = got
		}
		for i := range got {
			if !(math.Abs(got[i]-want[i]) <= 1e-5*(1+math.Abs(want[i]))) {
				t.Fatalf("%d at a time: figure %d is %g, want %g", c, i, got[i], want[i])
			}
		}
	}
	if passes := tr.passes(nil, 1); len(passes) != 0 {
		t.Errorf("no pairs make %d passes", len(passes))
	}
}

// spoiled gives one pair, known by its reference, a loss or a gradient that is not finite.
type spoiled struct {
	Loss
	reference      float64
	loss, gradient float64
}

func (l spoiled) Eval(e Example) (loss, gc, gr float64) {
	loss, gc, gr = l.Loss.Eval(e)
	if e.RefChosen == l.reference {
		return loss + l.loss, gc + l.gradient, gr
	}
	return loss, gc, gr
}

func TestNonFinite(t *testing.T) {
	for _, c := range []struct {
		what           string
		loss, gradient float64
	}{{"loss", math.NaN(), 0}, {"loss", math.Inf(1), 0}, {"loss", 0, math.NaN()}, {"gradient", 0, 1e300}} {
		tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 2)
		pairs := referenced(t, tr, testPairs(16, 4))
		tr.Loss = spoiled{tr.Loss, pairs[11].Reference[0], c.loss, c.gradient}
		before := tr.Optimizer.State().Clone()
		batch := []Pair{pairs[3], pairs[11], pairs[0], pairs[7], pairs[8]}
		m, err := tr.Step(t.Context(), batch)
		n, ok := errors.AsType[*trainer.NonFinite](err)
		if !ok || !slices.Equal(n.Examples, []int{1}) || !strings.Contains(err.Error(), "pair 1: the "+c.what) {
			t.Fatalf("%+v: %+v, %v", c, m, err)
		}
		if !reflect.DeepEqual(before, tr.Optimizer.State()) || tr.Optimizer.Done.Steps != 0 ||
			tr.Optimizer.Done.Tokens != 0 {
			t.Errorf("%+v: the step has changed something", c)
		}

		f := &Fit{Tuner: tr, Pairs: pairs, Epochs: 2, Order: inOrder(16)}
		o, err := f.Run(t.Context())
		if _, ok := errors.AsType[*trainer.NonFinite](err); !ok ||
			!strings.Contains(err.Error(), "number 11 of all, prompt 11") {
			t.Errorf("%+v: %v", c, err)
		}
		if len(o.Steps) > 1 || tr.Optimizer.Done.Steps != len(o.Steps) {
			t.Errorf("%+v: %d steps before the end", c, len(o.Steps))
		}
	}
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 2)
	pairs := referenced(t, tr, testPairs(10, 4))
	for i := range pairs {
		if i != 2 {
			pairs[i].Reference[0] = math.NaN()
		}
	}
	if _, err := tr.Evaluate(t.Context(), pairs); err == nil || !strings.Contains(err.Error(), "pair 0") ||
		!strings.Contains(err.Error(), "6 more") {
		t.Error(err)
	}
}

// TestResume interrupts a training after each of its updates and in its measurements; however often, it ends with the
// same bits.
func TestResume(t *testing.T) {
	judged := errors.New("interrupted while judging")
	run := func(t *testing.T, checkpoint string, interrupt bool) (*Outcome, trainer.State, trainer.Counters) {
		for attempt := 0; ; attempt++ {
			if attempt > 100 {
				t.Fatal("it never ends")
			}
			tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 3e-2, 3)
			pairs := referenced(t, tr, testPairs(29, 5))
			train, held := HoldOut(pairs, 0.2, rand.New(rand.NewPCG(1, 1)).Perm)
			ctx, stop := context.WithCancel(t.Context())
			calls := 0
			f := &Fit{Tuner: tr, Pairs: train, Held: held, Epochs: 4, Order: inOrder(len(train)),
				KeepBest: true, Checkpoint: trainer.Checkpoint{Path: checkpoint, Key: "a"},
				OnStep: func(Metrics, int, int) {
					if interrupt {
						stop()
					}
				}}
			f.Judge = func(ctx context.Context) (float64, error) {
				if calls++; interrupt && attempt%3 == 1 {
					return 0, judged
				}
				// Best in the middle: the distance of the adapters' size to some value.
				return math.Abs(tensor.GlobalNorm(tr.Optimizer.State().Params) - 5.73), nil
			}
			o, err := f.Run(ctx)
			stop()
			if err == nil {
				if interrupt && attempt < o.Updates/2 {
					t.Fatalf("only %d attempts for %d updates", attempt, o.Updates)
				}
				return o, tr.Optimizer.State().Clone(), tr.Optimizer.Done
			}
			if !errors.Is(err, context.Canceled) && !errors.Is(err, judged) {
				t.Fatal(err)
			}
		}
	}
	want, wantMoments, wantCounters := run(t, "", false)
	if want.Updates != 12 || len(want.Evals) != 4 || want.Best == len(want.Evals)-1 || want.Best < 1 ||
		want.Steps[11].NumTokens <= want.Steps[10].NumTokens {
		t.Fatalf("the training is too plain to tell much: %d updates, %d measurements, best %d", want.Updates,
			len(want.Evals), want.Best)
	}
	path := filepath.Join(t.TempDir(), "training.safetensors")
	for range 2 { // the second time everything is done already
		got, gotMoments, gotCounters := run(t, path, want.Updates > 0 && !fileThere(path))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("outcome %+v, want %+v", got, want)
		}
		if !reflect.DeepEqual(gotMoments, wantMoments) || !reflect.DeepEqual(gotCounters, wantCounters) {
			t.Errorf("adapters or counters differ: %v, want %v", gotCounters, wantCounters)
		}
	}

	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 3e-2, 3)
	pairs := referenced(t, tr, testPairs(29, 5))
	f := &Fit{Tuner: tr, Pairs: pairs, Epochs: 9, Order: inOrder(29),
		Checkpoint: trainer.Checkpoint{Path: path, Key: "b"}}
	if _, err := f.Run(t.Context()); !errors.Is(err, trainer.ErrForeignCheckpoint) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("another training's checkpoint gives %v", err)
	}
	content := testfile.Read(t, path)
	for _, n := range []int{0, 7, 100, len(content) - 1} {
		testfile.Write(t, path, content[:n])
		if _, err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a checkpoint of %d bytes of %d gives %v", n, len(content), err)
		}
	}
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestBest(t *testing.T) {
	values := []float64{3, 2, 2.5, 2, 1, 7}
	for _, keep := range []bool{true, false} {
		tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 8)
		pairs := referenced(t, tr, testPairs(8, 6))
		var states []trainer.State
		f := &Fit{Tuner: tr, Pairs: pairs, Epochs: len(values), Order: inOrder(8), KeepBest: keep}
		f.Judge = func(context.Context) (float64, error) {
			states = append(states, tr.Optimizer.State().Clone())
			return values[len(states)-1], nil
		}
		o, err := f.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := states[len(states)-1]
		if keep {
			want = states[4]
		}
		if o.Best != 4 || len(o.Evals) != len(values) || o.Value != values[4] || *o.Evals[4].FID != values[4] ||
			!reflect.DeepEqual(tr.Optimizer.State(), want) {
			t.Errorf("keeping the best %v: best %d of %d, value %g", keep, o.Best, len(o.Evals), o.Value)
		}
		if tr.Optimizer.Done.Steps != len(values) {
			t.Errorf("%d steps are counted", tr.Optimizer.Done.Steps)
		}
	}
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 8)
	f := &Fit{Tuner: tr, Pairs: referenced(t, tr, testPairs(8, 6)), Epochs: 1, Order: inOrder(8),
		Judge: func(context.Context) (float64, error) { return math.NaN(), nil }}
	if _, err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no number") {
		t.Error(err)
	}
	f.Pairs = nil
	if _, err := f.Run(t.Context()); err == nil {
		t.Error("no pairs are no error")
	}
}

func TestHoldOut(t *testing.T) {
	pairs := testPairs(40, 7)
	for i := range pairs {
		pairs[i].PromptIndex, pairs[i].Prompt = i/4, []int32{int32(i / 4), 11}
	}
	for _, c := range []struct {
		share float64
		held  int
	}{{0, 0}, {0.01, 4}, {0.3, 12}, {0.999, 36}} {
		train, held := HoldOut(pairs, c.share, rand.New(rand.NewPCG(1, 1)).Perm)
		if len(held) != c.held || len(train)+len(held) != 40 {
			t.Errorf("share %g: %d held out of %d", c.share, len(held), len(train))
		}
		for _, h := range held {
			if slices.ContainsFunc(train, func(p Pair) bool { return p.PromptIndex == h.PromptIndex }) {
				t.Errorf("share %g: prompt %d is on both sides", c.share, h.PromptIndex)
			}
		}
	}
	if train, held := HoldOut(pairs[:3], 0.5, rand.New(rand.NewPCG(1, 1)).Perm); len(train) != 3 || len(held) != 0 {
		t.Errorf("of one prompt %d pairs are held out", len(held))
	}
}

func TestReferenceFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reference.safetensors")
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 3)
	want := referenced(t, tr, testPairs(10, 8))
	from := func(tr *Tuner, pairs []Pair) Cached {
		t.Helper()
		c, err := tr.ReferenceFrom(t.Context(), pairs, path)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range pairs {
			if !p.HasReference || i < len(want) && p.Reference != want[i].Reference {
				t.Fatalf("pair %d has %v, want %v", i, p.Reference, want[i].Reference)
			}
		}
		return c
	}
	fresh := func() []Pair { return testPairs(10, 8) }
	if c := from(tr, fresh()); c.Read || c.Stale != nil {
		t.Errorf("the first time: %+v", c)
	}
	if c := from(testTuner(t, testLoss(t, "ipo", Params{Beta: 9}), 3, 3), fresh()); !c.Read || c.Stale != nil {
		t.Errorf("the second time, with another loss: %+v", c)
	}
	// Whatever the result depends on makes it another file.
	foreign := func(what string, c Cached) {
		t.Helper()
		if c.Read || c.Stale == nil || !strings.Contains(c.Stale.Error(), path) {
			t.Errorf("%s: %+v", what, c)
		}
	}
	foreign("fewer pairs", from(tr, fresh()[:9]))
	foreign("the pairs again", from(tr, fresh()))
	other := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 3)
	weight := other.Model.Param(other.Model.Names()[0])
	values := slices.Clone(weight.Host())
	values[3] += 0.25
	weight.Store(values)
	if hash, err := HashWeights(other.Model); err != nil || hash == tr.WeightsHash {
		t.Errorf("another weight gives the same hash (%v)", err)
	}
	stale := fresh()
	if c, err := other.ReferenceFrom(t.Context(), stale, path); err != nil || c.Read || c.Stale == nil {
		t.Errorf("another weight: %+v, %v", c, err)
	}
	from(tr, fresh())

	// Damage is seen and mended.
	content := testfile.Read(t, path)
	for at := 0; at < len(content); at += 41 {
		damaged := slices.Clone(content)
		damaged[at] ^= 0x10
		testfile.Write(t, path, damaged)
		from(tr, fresh())
		if mended, err := os.ReadFile(path); err != nil || !slices.Equal(mended, content) && !stillRead(t, path, tr) {
			t.Fatalf("byte %d is not mended (%v)", at, err)
		}
	}
	for _, n := range []int{0, 5, len(content) / 2} {
		testfile.Write(t, path, content[:n])
		foreign(fmt.Sprint(n, " bytes"), from(tr, fresh()))
	}
	if err := safetensors.Write(path, nil, map[string]string{"key": "x"}); err != nil {
		t.Fatal(err)
	}
	foreign("an empty file", from(tr, fresh()))
}

// stillRead: damage in what does not matter, such as padding, may stay.
func stillRead(t *testing.T, path string, tr *Tuner) bool {
	t.Helper()
	c, err := tr.ReferenceFrom(t.Context(), testPairs(10, 8), path)
	return err == nil && c.Read
}

// TestLearning: pairs with a plain rule are learnt, and the rule holds for pairs never seen; where chance decides which
// of the two is chosen there is nothing to learn.
func TestLearning(t *testing.T) {
	learn := func(shuffle bool) (first, last, train Evaluation) {
		tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 4e-3, 8)
		pairs := testPairs(1400, 11)
		if shuffle {
			r := rand.New(rand.NewPCG(12, 12))
			for i, p := range pairs {
				if r.IntN(2) == 0 {
					pairs[i].Chosen, pairs[i].Rejected = p.Rejected, p.Chosen
				}
			}
		}
		referenced(t, tr, pairs)
		f := &Fit{Tuner: tr, Pairs: pairs[:500], Held: pairs[500:], Epochs: 3, Order: inOrder(500)}
		o, err := f.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if train, err = tr.Evaluate(t.Context(), f.Pairs); err != nil {
			t.Fatal(err)
		}
		return o.Evals[0], o.Evals[len(o.Evals)-1], train
	}
	first, last, train := learn(false)
	t.Logf("planted: held-out accuracy %.3f, margin %.3f to %.3f, loss %.3f", last.Accuracy, first.RewardsMargins,
		last.RewardsMargins, last.Loss)
	if !(last.Accuracy > 0.95) || !(last.RewardsMargins > first.RewardsMargins+0.3) || !(last.Loss < first.Loss) ||
		!(train.Accuracy > 0.95) {
		t.Errorf("planted: %+v, at first %+v, on what it was trained on %+v", last, first, train)
	}
	// Of 900 coins half fall one way, give or take 15 (one standard deviation): the bound is four times that.
	_, last, train = learn(true)
	t.Logf("shuffled: held-out accuracy %.3f, margin %.3f, accuracy in training %.3f", last.Accuracy,
		last.RewardsMargins, train.Accuracy)
	if math.Abs(last.Accuracy-0.5) > 0.067 {
		t.Errorf("shuffled: %+v, on what it was trained on %+v", last, train)
	}
}

// TestResets: without its moments the optimizer begins again where the adapters are, and so does a schedule.
func TestResets(t *testing.T) {
	tr := testTuner(t, testLoss(t, "sigmoid", Params{Beta: 0.5}), 1e-2, 8)
	pairs := referenced(t, tr, testPairs(8, 9))
	for range 3 {
		if _, err := tr.Step(t.Context(), pairs); err != nil {
			t.Fatal(err)
		}
	}
	here := tr.Optimizer.State().Clone()
	step := func() (Metrics, [][]float32) {
		m, err := tr.Step(t.Context(), pairs)
		if err != nil {
			t.Fatal(err)
		}
		return m, tr.Optimizer.State().Clone().Params
	}
	_, carried := step()
	tr.Optimizer.SetState(here)
	tr.Optimizer.Reset()
	if err := tr.ResetSchedule(trainer.Schedule{Kind: "linear", Peak: 1e-2, Total: 4}); err != nil {
		t.Fatal(err)
	}
	m, anew := step()
	// AdamW's first step moves each parameter by the rate, whatever the size of its gradient.
	moved := 0
	for i := range anew {
		for k, x := range anew[i] {
			if d := math.Abs(float64(x - here.Params[i][k])); d > 0.99e-2 && d < 1.01e-2 {
				moved++
			}
		}
	}
	total := 0
	for _, p := range anew {
		total += len(p)
	}
	if reflect.DeepEqual(anew, carried) || moved < total*9/10 || m.LearningRate != 1e-2 || m.Step != 5 {
		t.Errorf("%d of %d parameters moved by the rate; step %d at %g", moved, total, m.Step, m.LearningRate)
	}
	if m, _ := step(); m.LearningRate != 0.75e-2 {
		t.Errorf("the schedule's second rate is %g", m.LearningRate)
	}
	if err := tr.ResetSchedule(trainer.Schedule{Kind: "steps", Peak: 1, Total: 1}); err == nil {
		t.Error("an unknown schedule is no error")
	}
}

// interrupted runs a training until it has made as many updates as stops says; 0 runs it to its end.
func interrupted(t *testing.T, f *Fit, stops int) *Outcome {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	made := 0
	f.OnStep = func(Metrics, int, int) {
		if made++; made == stops {
			stop()
		}
	}
	o, err := f.Run(ctx)
	if err != nil && !(stops > 0 && errors.Is(err, context.Canceled)) {
		t.Fatal(err)
	}
	return o
}
