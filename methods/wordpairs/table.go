package wordpairs

import (
	"maps"
	"math"
	"slices"

	"popri/fedsim/release"
	"popri/model/mixture"
)

// kept is what is above the noise.
type kept struct {
	tokens map[int32]float64           // r, log-ratios in nats
	rows   map[int32]map[int32]float64 // y(u,v)
	sums   map[int32]float64           // Y(u)
	pairs  int                         // number of y(u,v)
}

// keep reads a release.
func (m *Method) keep(answer *release.Release) *kept {
	k := &kept{tokens: map[int32]float64{}, rows: map[int32]map[int32]float64{}, sums: map[int32]float64{}}
	q, least := m.question, settings.Of(m.Config).Threshold*answer.NoiseStd()
	private, public := 0.0, 0.0
	for i, v := range q.Tokens {
		if y := answer.Sum[i]; y > least && m.public[i] > 0 {
			k.tokens[v] = math.Log(y / m.public[i])
			private, public = private+y, public+m.public[i]
		}
	}
	for v := range k.tokens {
		k.tokens[v] -= math.Log(private / public)
	}
	for i, u := range q.Tokens {
		for j, v := range q.Tokens {
			y := answer.Sum[q.Pair(i, j)]
			if y <= least {
				continue
			}
			if k.rows[u] == nil {
				k.rows[u] = map[int32]float64{}
			}
			k.rows[u][v] = y
			k.sums[u] += y
			k.pairs++
		}
	}
	return k
}

// weights are how much of the table is mixed in; all zero is nothing.
type weights struct{ tilt, cap, kappa float64 }

// fixed suit a pretrained small model, which knows most pairs of words; validation clients of speeches choose about these.
var fixed = weights{tilt: .3, cap: .2, kappa: 20}

var tilts = [...]float64{0, .3, 1}

// candidates are what validation clients choose among; the first is no table.
var candidates = func() []weights {
	list := []weights{{}}
	for _, tilt := range tilts {
		for _, most := range []float64{.2, .5, 1} {
			for _, kappa := range []float64{2, 6, 20, 60} {
				list = append(list, weights{tilt, most, kappa})
			}
		}
	}
	return list
}()

// weight is λ of a row of sum Y.
func (w weights) weight(sum float64) float64 { return min(w.cap, sum/(sum+w.kappa)) }

// table is the table with these weights.
func (k *kept) table(w weights) *mixture.Table {
	t := &mixture.Table{Tilt: w.tilt, LogRatios: k.tokens, Rows: map[int32]mixture.Row{}}
	for u, row := range k.rows {
		next := map[int32]float64{}
		for v, y := range row {
			next[v] = y / k.sums[u]
		}
		t.Rows[u] = mixture.Row{Weight: w.weight(k.sums[u]), Next: next}
	}
	return t
}

// losses are the losses of all candidates, which one pass over the vocabulary for each token gives:
//
//	Z(tilt) = Z(0) + Σ_{kept v} e^logit(v) · (e^(tilt·r(v)) − 1)
type losses struct {
	*kept
	order  []int32               // of the kept tokens, so that sums round alike each time
	raised [len(tilts)][]float64 // e^(tilt·r) − 1 of these
	parts  []float64             // e^logit, scaled
	of     []float64             // each candidate's, nats in all
	n      float64               // tokens
}

func (k *kept) newLosses() *losses {
	l := &losses{kept: k, order: slices.Sorted(maps.Keys(k.tokens)), of: make([]float64, len(candidates))}
	for t, tilt := range tilts {
		for _, v := range l.order {
			l.raised[t] = append(l.raised[t], math.Expm1(tilt*k.tokens[v]))
		}
	}
	return l
}

// add adds a token with the logits before it and the token before that.
func (l *losses) add(before, next int32, logits []float32) {
	most, all := float64(slices.Max(logits)), 0.0
	l.parts = l.parts[:0]
	for _, x := range logits {
		l.parts = append(l.parts, math.Exp(float64(x)-most))
		all += l.parts[len(l.parts)-1]
	}
	var q [len(tilts)]float64 // of the token
	for t, tilt := range tilts {
		z := all
		for i, v := range l.order {
			z += l.parts[v] * l.raised[t][i]
		}
		q[t] = l.parts[next] * math.Exp(tilt*l.tokens[next]) / z
	}
	y, sum := l.rows[before][next], l.sums[before]
	for i, w := range candidates {
		p := q[slices.Index(tilts[:], w.tilt)]
		if sum > 0 {
			p += w.weight(sum) * (y/sum - p)
		}
		l.of[i] -= math.Log(p)
	}
	l.n++
}
