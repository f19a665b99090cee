package wordpairs

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"popri/configs"
	"popri/fedsim/release"
	"popri/internal/rng"
	"popri/methods/method"
	"popri/model/lm"
	"popri/scoring/counts"
)

// TestFrequent: the most frequent tokens, the first of a row included; of as frequent ones, the lower ids.
func TestFrequent(t *testing.T) {
	tokens, often := frequent([]lm.Row{{Tokens: []int32{9, 4, 4, 2}}, {Tokens: []int32{9, 5, 4}}}, 3)
	if !reflect.DeepEqual(tokens, []int32{2, 4, 9}) || !reflect.DeepEqual(often, []float64{1, 3, 0}) {
		t.Errorf("tokens %v, %v times", tokens, often)
	}
	if tokens, _ := frequent(nil, 3); len(tokens) != 0 {
		t.Errorf("no text has %v", tokens)
	}
}

// made is a method with a question about the tokens 2, 5 and 7, and a release.
func made(threshold float64) (*Method, *release.Release) {
	c := configs.Default()
	if err := c.Set("word_pairs.threshold", fmt.Sprint(threshold)); err != nil {
		panic(err) // a bug of the test
	}
	m := &Method{Env: method.Env{Config: c}, question: counts.Question{Tokens: []int32{2, 5, 7}, Share: .7},
		public: []float64{10, 30, 0}}
	return m, &release.Release{Sigma: .5, Sensitivity: 1,
		Sum: []float64{4, 4, 9 /* of a token that the public text has never */, 0, 6, 2, -8, 1.9, .1, 12, 0, 0}}
}

// TestTableByHand: values above four times the noise, 2, are kept.
func TestTableByHand(t *testing.T) {
	m, answer := made(4)
	k := m.keep(answer)
	table := k.table(weights{.3, .5, 6})
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	if r := table.LogRatios; len(r) != 2 || !near(r[2], math.Log(2)) || !near(r[5], math.Log(.5/.75)) {
		t.Errorf("log-ratios %v", r)
	}
	if len(table.Rows) != 2 || k.pairs != 2 || !near(table.Rows[2].Weight, .5) || !near(table.Rows[7].Weight, .5) ||
		table.Rows[2].Next[5] != 1 || table.Rows[7].Next[2] != 1 || table.Tilt != .3 {
		t.Errorf("rows %v", table.Rows)
	}
	m, answer = made(3.9)
	if row := m.keep(answer).table(weights{0, 1, 8}).Rows[2]; !near(row.Next[5], .75) || !near(row.Next[7], .25) || !near(row.Weight, .5) {
		t.Errorf("with a lower threshold, the row is %v", row)
	}
}

// TestLossesAreTheTables: the weights are chosen by the losses that the tables have.
func TestLossesAreTheTables(t *testing.T) {
	m, answer := made(1)
	k, random := m.keep(answer), rng.New(1, t.Name())
	l, want, before := k.newLosses(), make([]float64, len(candidates)), 0.0
	const n = 200
	for range n {
		logits, u, v := make([]float32, 9), int32(random.IntN(9)), int32(random.IntN(9))
		norm := 0.0
		for i := range logits {
			logits[i] = float32(3 * random.NormFloat64())
			norm += math.Exp(float64(logits[i]))
		}
		before += math.Log(norm) - float64(logits[v])
		for i, w := range candidates {
			mixed := append([]float32(nil), logits...)
			k.table(w).Mix(u, mixed)
			want[i] -= float64(mixed[v])
		}
		l.add(u, v, logits)
	}
	if l.n != n || math.Abs(l.of[0]-before) > 1e-9*n {
		t.Errorf("without a table %g, want %g", l.of[0], before)
	}
	for i := range want {
		if math.Abs(l.of[i]-want[i]) > 1e-5*n {
			t.Errorf("%+v: loss %g, the table's is %g", candidates[i], l.of[i], want[i])
		}
	}
}
