// Package buttress filters the synthetic set of an earlier run by a small model that clients trained: the order of
// training in "Prompt Public Large Language Models to Synthesize Data for Private On-device Applications" (arXiv 2404.04360).
// The rule is ours, because the paper states none.
//
//	run A      synthetic set D ─► small model M₀         popri run, popri eval
//	run B      M₀ ─► clients, with noise ─► M₁           popri run --at-clients A
//	this run   d(x) = mean_t ln p₁(x_t | x_<t) − mean_t ln p₀(x_t | x_<t)      the gain of each text x of D
//	           the n = keep·|D| texts with the largest d, or n drawn without replacement with weights exp(γ·d)
//
// The draw takes the n largest γ·d + G with standard Gumbel noise G, which draws one text after the other with probabilities
// proportional to the weights (Kool et al. 2019). Nobody is asked: everything follows from D, M₀ and M₁, so the run adds no
// charge to those that it continues.
package buttress

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rng"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/show/series"
)

// Method filters the set in one round. It keeps no state: the result is in the round's folder.
type Method struct {
	method.Env
	earlier
}

// newMethod finds the earlier runs' files.
func newMethod(e method.Env) (rounds.Method, error) {
	f, err := follow(e.Config.Privacy.Continues)
	if err == nil && slices.Contains([]string{f.before, f.after}, filepath.Clean(e.Config.Downstream.Model)) {
		err = fault.Userf("downstream.model is %s, which scores the texts, must be the model that %s began with: take its "+
			"settings by --config %s", e.Config.Downstream.Model, filepath.Dir(f.before),
			filepath.Join(filepath.Dir(f.before), rundir.Config))
	}
	return &Method{e, f}, err
}

// Restore implements rounds.Method.
func (m *Method) Restore(int) error { return nil }

// scored is a text's score as stored, in the order of the earlier set.
type scored struct {
	Text   string  `parquet:"text"`
	Gain   float64 `parquet:"gain"`
	Copies int64   `parquet:"copies"` // 1 if the text is kept
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	err := r.Stage("score", func(s rounds.Stage) error {
		set, err := rows.Read[sampling.Row](m.texts)
		if err != nil {
			return err
		}
		if len(set) == 0 {
			return fault.Userf("%s holds no texts", m.texts)
		}
		gains, err := m.gains(ctx, s, set)
		if err != nil {
			return err
		}
		list := numeric.Tabulate(len(set), func(i int) scored { return scored{Text: set[i].Text, Gain: gains[i]} })
		for _, i := range choose(gains, settings.Of(m.Config), rng.New(m.Config.Seed, "buttress")) {
			list[i].Copies = 1
		}
		if !slices.ContainsFunc(gains, func(gain float64) bool { return gain != 0 }) {
			s.Say("no text has a gain: the training at the clients left the small model as it was")
		}
		note(r.Figures, set, list)
		return rows.Write(filepath.Join(r.Dir, rundir.Selection), list)
	})
	if err != nil {
		return err
	}
	return r.NoteSpent()
}

// gains are the texts' gains.
func (m *Method) gains(ctx context.Context, s rounds.Stage, set []sampling.Row) ([]float64, error) {
	texts := numeric.Map(set, func(row sampling.Row) string { return row.Text })
	out, err := m.Likelihoods(ctx, m.after, texts, func(done, n int) { s.Progress(done, 2*n) })
	if err != nil {
		return nil, err
	}
	before, err := m.Likelihoods(ctx, m.before, texts, func(done, n int) { s.Progress(n+done, 2*n) })
	for i := range before {
		out[i] -= before[i]
	}
	return out, err
}

// choose returns the indices of the kept texts, in ascending order. Of equal gains, the first is kept.
func choose(gains []float64, k Settings, random *rand.Rand) []int {
	order := slices.Clone(gains)
	if k.Gamma > 0 {
		for i := range order {
			order[i] = k.Gamma*order[i] - math.Log(random.ExpFloat64())
		}
	}
	chosen := numeric.SortedIndices(len(order), func(a, b int) int { return cmp.Compare(order[b], order[a]) })
	chosen = chosen[:max(1, int(math.Round(k.Keep*float64(len(order)))))]
	slices.Sort(chosen)
	return chosen
}

// note keeps the figures of all texts and of the kept ones.
func note(f *series.Round, set []sampling.Row, list []scored) {
	var n, gain, public [2]float64 // of all, of the kept ones
	for i, of := range list {
		for part := range 1 + of.Copies {
			n[part]++
			gain[part] += of.Gain
			if set[i].Finish == sampling.Public {
				public[part]++
			}
		}
	}
	for part, keys := range [][3]string{{keyTexts, keyGain, keyPublic}, {keyKept, keyKeptGain, keyKeptPublic}} {
		f.Set(keys[0], n[part])
		f.Set(keys[1], gain[part]/n[part])
		f.Set(keys[2], public[part]/n[part])
	}
}

// Product implements rounds.TextMethod: the kept texts, in their order.
func (m *Method) Product(_ context.Context, _ rounds.Stage, file string) ([]sampling.Row, error) {
	set, err := rows.Read[sampling.Row](m.texts)
	if err != nil {
		return nil, err
	}
	list, err := rows.Read[scored](filepath.Join(rundir.Round(m.Dir, 1), rundir.Selection))
	if err != nil {
		return nil, err
	}
	same := func(row sampling.Row, s scored) bool { return row.Text == s.Text }
	if !slices.EqualFunc(set, list, same) {
		return nil, fault.Userf("%s holds other texts than when they were scored: restore it, or make this run again", m.texts)
	}
	out := numeric.Pick(set, numeric.Where(len(set), func(i int) bool { return list[i].Copies > 0 }))
	return out, rows.Write(file, out)
}
