package lm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"popri/model/tensor"
	"popri/testkit/tensortest"
)

// Samples' first tokens must be as frequent as the truncated softmax says, for every setting.
func TestSamplesFollowTheSoftmax(t *testing.T) {
	m := newSmall(t, small()["gpt2"])
	prompt := []int32{3, 1, 4, 1, 5}
	logits := logitsOf(t, m, prompt)
	v := m.Config.Vocab
	last := logits[(len(prompt)-1)*v : len(prompt)*v] // padding may follow
	const n = 6000
	for _, o := range []SampleOptions{
		{Temperature: 0.7, TopP: 0.8},
		{Temperature: 1}, {Temperature: 0.5}, {Temperature: 2}, {Temperature: 1, TopK: 7}, {Temperature: 1, TopP: 0.6},
		{Temperature: 0.7, TopK: 12, TopP: 0.8},
	} {
		o.MaxNewTokens, o.IgnoreEOS, o.Seed = 1, true, 11
		out, err := m.Generate(t.Context(), [][]int32{prompt}, n, o)
		if err != nil {
			t.Fatal(err)
		}
		observed := make([]float64, v)
		for _, s := range out[0] {
			observed[s.IDs[0]]++
		}
		row := append([]float32{}, last...)
		keep := tensortest.SortedCut(row, o.TopK, o.TopP, o.Temperature)
		expected, total := make([]float64, v), 0.0
		for i := range keep {
			expected[i] = math.Exp(float64(row[i]) / o.Temperature)
			total += expected[i]
		}
		statistic, cells, rare, rareSeen := 0.0, 0, 0.0, 0.0
		for i := range expected {
			expected[i] *= n / total
			if expected[i] == 0 && observed[i] > 0 {
				t.Fatalf("%+v: id %d was cut off and drawn %g times", o, i, observed[i])
			}
			if expected[i] < 5 { // too few for the statistic by themselves
				rare += expected[i]
				rareSeen += observed[i]
				continue
			}
			statistic += (observed[i] - expected[i]) * (observed[i] - expected[i]) / expected[i]
			cells++
		}
		if rare >= 5 {
			statistic += (rareSeen - rare) * (rareSeen - rare) / rare
			cells++
		}
		if cells < 2 {
			t.Fatalf("%+v: the distribution has %d likely tokens, too few to test", o, cells)
		}
		if p := 1 - (distuv.ChiSquared{K: float64(cells - 1)}).CDF(statistic); p < 1e-4 {
			t.Errorf("%+v: chi-square %g over %d cells, p = %g", o, statistic, cells, p)
		}
	}
}

// TestHeldTokens: held tokens come after the least length only.
func TestHeldTokens(t *testing.T) {
	m := newSmall(t, small()["gpt2"])
	const held = 6
	o := SampleOptions{Temperature: 1, MaxNewTokens: 12, MinNewTokens: 6, IgnoreEOS: true, Seed: 3,
		HeldTokens: []int32{held}}
	out, err := m.Generate(t.Context(), [][]int32{{1, 2}, {4}}, 400, o)
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, samples := range out {
		for _, s := range samples {
			for i, id := range s.IDs {
				if id != held {
					continue
				}
				if late++; i < o.MinNewTokens {
					t.Fatalf("%v: token %d is held back before token %d", s.IDs, held, o.MinNewTokens)
				}
			}
		}
	}
	if late == 0 {
		t.Error("the held token is never drawn")
	}
}

// TestSamplesDoNotDependOnTheBatch: nor on the cache or the number of threads, in float32, and with packed weights in
// bfloat16 too.
func TestSamplesDoNotDependOnTheBatch(t *testing.T) {
	defer tensor.SetThreads(0)
	configs := small()
	// Wide enough for products in several parts.
	configs["wide"] = Config{Type: "gpt2", Vocab: 300, Context: 64, Hidden: 768, Layers: 1, Heads: 12, Inner: 3072,
		NormEps: 1e-5, Gelu: "gelu_new", TiedHead: true, ScaleAttn: true}
	for name, config := range configs {
		m := newSmall(t, config)
		samplesDoNotDependOnTheBatch(t, name, m)
		if !tensor.CanPack(tensor.BFloat16) {
			continue
		}
		half, err := m.Copy(Options{Weights: tensor.BFloat16, Sampling: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		samplesDoNotDependOnTheBatch(t, name+" in bfloat16", half)
		half.Free()
	}
}

func samplesDoNotDependOnTheBatch(t *testing.T, name string, m *Model) {
	random := rand.New(rand.NewPCG(5, 6))
	var prompts [][]int32
	for range 9 {
		p := make([]int32, 1+random.IntN(12))
		for i := range p {
			p[i] = int32(random.IntN(m.Config.Vocab))
		}
		prompts = append(prompts, p)
	}
	o := SampleOptions{Temperature: 1, TopP: 0.95, MaxNewTokens: 12, Seed: 5}
	tensor.SetThreads(1)
	want, err := m.Generate(t.Context(), prompts, 6, o)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, o SampleOptions, prompts [][]int32, j int) {
		t.Helper()
		got, err := m.Generate(t.Context(), prompts, j, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			for k := range got[i] {
				if a, b := got[i][k], want[i][k]; !slices.Equal(a.IDs, b.IDs) {
					t.Fatalf("%s, %s: prompt %d, sample %d is %v, want %v", name, what, i, k, a.IDs, b.IDs)
				}
			}
		}
	}
	small := o
	small.CacheBytes = 1 // one sample at a time
	check("a small cache", small, prompts, 6)
	check("fewer samples", o, prompts, 2)
	check("the first prompts", o, prompts[:4], 6)
	tensor.SetThreads(2)
	check("two threads", o, prompts, 6)
}
