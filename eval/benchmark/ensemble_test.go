package benchmark

import (
	"math"
	"os"
	"strconv"
	"testing"

	"popri/internal/fault"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// TestMadeUpTeachers: coordinated votes reach a majority as often as the formula says, and cover what the teachers have
// in common; independent votes cover nothing above the largest mean probability.
func TestMadeUpTeachers(t *testing.T) {
	o := EnsembleOptions{Alpha: .5, Teachers: 200, Common: 50, Histograms: 800, Thresholds: []float64{.1, .5}, Seed: 1}
	e, err := CompareVotes(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(e.Limit-.5) > 1e-12 || math.Abs(e.Majority.Coordinated-.5) > .08 || e.Majority.Independent > 0 {
		t.Errorf("majorities %+v, the formula has %g", e.Majority, e.Limit)
	}
	if hot, cold := e.Rows[0].Coordinated, e.Rows[0].Independent; hot.Coverage < .4 || cold.Coverage > 0 ||
		hot.Sparsity != 50 || math.Abs(e.Rows[0].Robust-.5) > 1e-9 || hot.Distance > .55 || cold.Distance != 1 {
		t.Errorf("a tenth: %+v", e.Rows[0])
	}
	if math.Abs(e.Largest-.01) > 1e-12 {
		t.Errorf("largest %g", e.Largest)
	}
	for _, bad := range []EnsembleOptions{{}, {Alpha: 1, Teachers: 5, Common: 3, Histograms: 2},
		{Alpha: .5, Teachers: 5, Common: 3, Histograms: 2, Thresholds: []float64{2}}} {
		if _, err := CompareVotes(t.Context(), bad); !fault.IsUser(err) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestNumbersByLikelihood: a number of several tokens has the product of their probabilities, as a forward pass over
// the whole has it.
func TestNumbersByLikelihood(t *testing.T) {
	dir := testworld.Shared(t).Generator
	o := EnsembleOptions{Model: dir, DType: tensor.Float32, Teachers: 3, Common: 2, Histograms: 20,
		Thresholds: []float64{.5}, Seed: 2}
	prompts := o.prompts()
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.Load(dir, lm.Options{Weights: tensor.Float32, Compute: tensor.Float32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	for i := range prompts { // the tests' model has a short context
		prompts[i].text = prompts[i].text[len(prompts[i].text)-40:]
	}
	p, err := o.ask(t.Context(), prompts)
	if err != nil {
		t.Fatal(err)
	}
	prefix, _ := tok.Template()
	for i, prompt := range prompts {
		begun := append(append([]int32{}, prefix...), tok.Encode(prompt.text)...)
		for _, n := range []int{100, 357, 999} {
			ids := tok.Encode(" " + strconv.Itoa(n))
			if len(ids) < 2 {
				t.Fatal("the number is one token")
			}
			row := append(append([]int32{}, begun...), ids...)
			want := 0.0
			err := tensor.Run(func(s *tensor.Scope) error {
				logits := s.Float32s(m.Logits(s, m.Hidden(s, lm.PaddedInput(s, [][]int32{row}, m.Config.Context), nil)))
				for k, id := range ids {
					at := logits[(len(begun)+k-1)*m.Config.Vocab:][:m.Config.Vocab]
					want += float64(at[id]) - logSum(at)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := math.Log(p[i][n-first]); math.Abs(got-want) > 1e-3 {
				t.Errorf("prompt %d, %d: log-probability %g, want %g", i, n, got, want)
			}
		}
		sum := 0.0
		for _, x := range p[i] {
			sum += x
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("prompt %d: probabilities add up to %g", i, sum)
		}
	}
}
