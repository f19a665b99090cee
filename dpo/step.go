package dpo

import (
	"fmt"
	"math"

	"popri/lm"
	"popri/tensor"
)

// Step does one update on the mean loss of pairs, which must have their reference log-probabilities. A loss or gradient
// that is not finite changes nothing and is a [*NonFinite], which names the pairs.
func (t *Tuner) Step(pairs []Pair) (Metrics, error) {
	if err := t.Check(pairs); err != nil {
		return Metrics{}, err
	}
	m := Metrics{Step: t.done.Steps + 1, LearningRate: t.Schedule.At(t.done.Position), NumTokens: t.done.Tokens +
		countTokens(pairs), Pairs: len(pairs)}
	g := t.group(pairs, 1)
	parts := make([]Metrics, len(g.ends))
	var err error
	m.GradNorm, err = t.opt.StepPasses(len(parts), m.LearningRate, func(i int, s *tensor.Scope) ([]tensor.Tensor, error) {
		from, to := g.bounds(i)
		return t.part(s, &parts[i], g.pairs[from:to], from, pairs)
	})
	for _, p := range parts {
		m.addPart(p)
	}
	if bad(m.GradNorm) {
		err = t.blame(pairs, m.GradNorm)
	}
	if err != nil {
		return m, fmt.Errorf("dpo: step %d: %w", m.Step, g.original(err))
	}
	t.done = lm.Counters{Steps: m.Step, Position: t.done.Position + 1, Tokens: m.NumTokens}
	return m, nil
}

// part computes one forward and backward pass, of the pairs that begin at index from of all in the step: its share of the
// step's metrics and gradients. Pairs without a finite loss give a [*NonFinite].
func (t *Tuner) part(s *tensor.Scope, m *Metrics, pairs []Pair, from int, all []Pair) (grads []tensor.Tensor, err error) {
	n, chosenLen := float64(len(all)), meanChosenLen(all)
	s.WithGrad(func() {
		sc := t.Model.Score(s, rows(pairs, t.Model.Config.Context), t.Adapter, false)
		lp := sums(sc, pairs)
		byRow := make([]float64, 2*len(pairs))
		var refused NonFinite
		for i, pair := range pairs {
			if !pair.HasReference {
				err = fmt.Errorf("pair %d has no reference log-probabilities", from+i)
				return
			}
			e := Example{lp[2*i], lp[2*i+1], pair.Reference[0], pair.Reference[1], len(pair.Chosen),
				len(pair.Rejected), chosenLen}
			loss, gc, gr := t.Loss.Eval(e)
			if bad(loss) || bad(gc) || bad(gr) {
				refused.add(from+i, fmt.Sprintf(
					"the loss is %g (log-probabilities %g and %g, reference %g and %g)", loss, lp[2*i], lp[2*i+1],
					pair.Reference[0], pair.Reference[1]))
				continue
			}
			byRow[2*i], byRow[2*i+1] = gc/n, gr/n
			m.add(loss/n, e, t.Beta, n)
		}
		if len(refused.Pairs) > 0 {
			err = &refused
			return
		}
		// Averaged over the tokens of each part and then over the parts, as TRL logs it.
		var sum [2]float64
		var tokens [2]int
		entropy := 0.0
		for _, h := range sc.Entropy {
			entropy += float64(h)
		}
		for i, l := range sc.MeanLogits(s) {
			sum[sc.Row[i]%2] += l
			tokens[sc.Row[i]%2]++
		}
		share := float64(len(pairs)) / n
		m.Entropy = share * entropy / float64(max(1, len(sc.Entropy)))
		m.LogitsChosen = share * sum[0] / float64(max(1, tokens[0]))
		m.LogitsRejected = share * sum[1] / float64(max(1, tokens[1]))
		weights := make([]float32, len(sc.LogProbs))
		for i, r := range sc.Row {
			weights[i] = float32(byRow[r])
		}
		grads = t.opt.Gradients(s, sc, weights)
	})
	return grads, err
}

func bad(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
