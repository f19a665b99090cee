package grpo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"popri/lora"
	"popri/methods/policy"
	"popri/methods/sampling"
	"popri/model/lm"
	"popri/trainer"
)

func TestAdvantages(t *testing.T) {
	want := []float64{-1 / (math.Sqrt2 + 1e-4), 1 / (math.Sqrt2 + 1e-4), 0, 0}
	got, deviations := advantages([]float64{2, 4, 7, 7}, 2)
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) ||
		deviations[0] != math.Sqrt2 || deviations[1] != 0 {
		t.Errorf("%v, deviations %v", got, deviations)
	}
}

func TestGroups(t *testing.T) {
	c := policy.Candidates{Prompts: []sampling.Prompt{{IDs: []int32{1}}, {IDs: []int32{2, 3}}}}
	for i := range 10 {
		row := sampling.Row{Prompt: int64(i / 5), Text: "text", IDs: []int32{int32(i)}}
		if i == 7 {
			row.Text = "" // the best of its prompt, an end token alone
		}
		c.Rows = append(c.Rows, row)
	}
	scores := []float64{3, 1, 5, 4, 2, 0, 1, 9, 2, 3}
	want := [][]int{{2, 3, 0, 4, 1}, {4, 3, 1, 0}}
	for i, g := range groups(c, scores, 5) {
		var got []int
		for _, x := range g.samples {
			got = append(got, x.index)
			if x.prompt != i || math.Signbit(x.advantage) != (scores[i*5+x.index] < 3) {
				t.Errorf("%+v", x)
			}
		}
		if !slices.Equal(got, want[i]) || g.reward != 3 {
			t.Errorf("prompt %d trains on %v, want %v; the reward is %g", i, got, want[i], g.reward)
		}
	}
}

// randomGroups makes groups of 0 to 9 samples.
func randomGroups(r *rand.Rand, n, vocab int) []group {
	draw := func(n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(r.IntN(vocab))
		}
		return ids
	}
	out := make([]group, n)
	for i := range out {
		out[i] = group{prompt: draw(1 + r.IntN(8)), deviation: 1}
		for j := range r.IntN(10) {
			out[i].samples = append(out[i].samples,
				&sample{prompt: i, index: j, tokens: draw(1 + r.IntN(6)), advantage: r.NormFloat64()})
		}
	}
	return out
}

// TestPasses: every sample is in one pass, in order, behind its prompt; passes and rows keep their bounds.
func TestPasses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for most := 1; most < 30; most += 3 {
		list := randomGroups(r, 12, 50)
		var want, got []*sample
		for _, g := range list {
			want = append(want, g.samples...)
		}
		for _, p := range passes(list, 4, most) {
			got = append(got, p.samples...)
			if len(p.samples) > most {
				t.Errorf("a pass of %d samples, at most %d", len(p.samples), most)
			}
			of := p.samples
			for _, row := range p.rows {
				n := 1 + len(row.Branches)
				prompt := list[of[0].prompt].prompt
				tokens := slices.Clone(prompt)
				for _, x := range of[:n] {
					tokens = append(tokens, x.tokens...)
				}
				if !slices.Equal(tokens, row.Tokens) || n > 1 && len(tokens)-len(prompt) > rowTokens(len(prompt), 4) {
					t.Errorf("a row of %d samples holds %v, want %v", n, row.Tokens, tokens)
				}
				of = of[n:]
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("passes of at most %d samples hold other ones", most)
		}
	}
}

// TestUpdate: neither the division into passes nor the division of a prompt's samples into rows changes an update but
// by rounding, and its gradient is what differences of the loss give.
func TestUpdate(t *testing.T) {
	config := lm.Config{Type: "gpt2", Vocab: 40, Context: 32, Hidden: 16, Layers: 2, Heads: 2, Inner: 32, NormEps: 1e-5,
		Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}
	m, err := lm.New(config, lm.Options{}, rand.New(rand.NewPCG(3, 4)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	list := randomGroups(rand.New(rand.NewPCG(5, 6)), 8, config.Vocab)
	fresh := func(micro int, epsilon float64) *objective {
		a, err := lora.New(m, lora.Config{Rank: 2, Alpha: 8}, rand.New(rand.NewPCG(7, 8)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Free)
		params, err := a.Trainable()
		if err != nil {
			t.Fatal(err)
		}
		l := &objective{model: m, adapter: a, groups: list,
			optimizer: trainer.NewOptimizer(params, trainer.AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: epsilon}),
			micro:     micro}
		for _, x := range l.samples() {
			x.old = nil
		}
		if err := l.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	update := func(l *objective, lr float64) Metrics {
		var m Metrics
		if _, err := l.optimizer.Update(l.batch(list, 50, func(figures Metrics) { m = figures }), lr); err != nil {
			t.Fatal(err)
		}
		return m
	}
	tune := func(micro int) (l *objective, m Metrics) {
		l = fresh(micro, 1e-3)
		for range 4 {
			m = update(l, 0.02)
		}
		return l, m
	}
	l, want := tune(1)
	if !(want.Clip > 0) || l.optimizer.Done.Steps != 4 {
		t.Errorf("after four updates: %+v", want)
	}
	for _, micro := range []int{4, 100} {
		other, got := tune(micro)
		if math.Abs(got.Loss-want.Loss) > 1e-4 || math.Abs(got.Entropy-want.Entropy) > 1e-4 {
			t.Errorf("%d samples at a time: %+v, want %+v", micro, got, want)
		}
		for i, p := range other.optimizer.State().Params {
			for k, v := range p {
				if d := math.Abs(float64(v - l.optimizer.State().Params[i][k])); d > 1e-3 {
					t.Fatalf("%d samples at a time: a parameter differs by %g", micro, d)
				}
			}
		}
	}
	// A small step down the gradient lowers the loss by its squared norm. With so large an ε, AdamW steps along the
	// gradient.
	const epsilon, size = 1e6, 1e-3
	l = fresh(7, epsilon)
	before := update(l, epsilon*size)
	after := update(l, 0)
	if got, want := before.Loss-after.Loss, size*before.GradNorm*before.GradNorm; !(math.Abs(got-want) < 0.05*want) {
		t.Errorf("a step of %g times the gradient of norm %g lowers the loss by %g, want %g", size, before.GradNorm,
			got, want)
	}
}
