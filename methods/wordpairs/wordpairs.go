// Package wordpairs is the rival that releases no text: a noised table of the clients' tokens and pairs of tokens, which
// is mixed into the small model's next-token distribution. The run publishes the small model as it was, with the table
// (package mixture).
//
//	V          the most frequent tokens of the public text                  public
//	client i   v_i: its counts of tokens and pairs in V, ‖v_i‖₂ ≤ 1         package scoring/counts
//	release    y = Σ v_i + N(0, σ²)                                         once: |V| + |V|² values
//	kept       y(v), y(u,v) above threshold · σ, else 0                     post-processing, as all that follows
//	table      r(v) = ln( y(v)/Σ y ) − ln( public share of v among the kept tokens )
//	           p(v | u) = y(u,v)/Y(u), Y(u) = Σ_v y(u,v)
//	           λ(u) = min(cap, Y(u)/(Y(u) + κ))
//
// Tilt, cap and κ are constants, or the candidates with the least loss on the validation clients, as is whether there
// is a table (trainer.select=validation). y has the unit of the clients' vectors: 1 is a client that says nothing else.
package wordpairs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rundir"
	"popri/lora"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/scoring/counts"
)

// Method is the only round.
type Method struct {
	method.Env
	part     *lora.Part // holds the small model
	question counts.Question
	public   []float64 // counts in the public text, of the question's tokens
	kept     *kept     // nil before the round
	chosen   weights
}

// newMethod opens the small model and chooses the tokens.
func newMethod(e method.Env) (rounds.Method, error) {
	m, s := &Method{Env: e}, settings.Of(e.Config)
	tokenizer, err := atomicfile.SHA256(filepath.Join(e.Given.Small.Dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	m.question = counts.Question{Share: s.PairShare,
		Rows: fmt.Sprintf("%s %s %d", tokenizer, e.Config.Downstream.Training().Rows, e.Config.Downstream.Length)}
	m.question.Tokens, m.public = frequent(e.Given.Small.Encode(datasets.Strings(e.Public.Generator)), s.Tokens)
	m.part, err = e.Given.Small.Open()
	return m, err
}

// frequent are the n most frequent tokens of rows in ascending order, of as frequent ones those with lower ids, and how
// often each is in a row after the first token.
func frequent(rows []lm.Row, n int) (tokens []int32, often []float64) {
	all, later := map[int32]int{}, map[int32]float64{}
	for _, row := range rows {
		for i, v := range row.Tokens {
			if all[v]++; i > 0 {
				later[v]++
			}
		}
	}
	tokens = slices.SortedFunc(maps.Keys(all), func(a, b int32) int { return cmp.Or(all[b]-all[a], int(a-b)) })
	tokens = tokens[:min(n, len(tokens))]
	slices.Sort(tokens)
	return tokens, numeric.Map(tokens, func(v int32) float64 { return later[v] })
}

// Close implements rounds.Method.
func (m *Method) Close() {
	if m.part != nil {
		m.part.Free()
	}
}

// Restore implements rounds.Method: the release, and the weights among the figures.
func (m *Method) Restore(round int) error {
	m.kept = nil
	if round == 0 {
		return nil
	}
	answer, err := release.Read(filepath.Join(rundir.Round(m.Dir, round), release.File))
	if err != nil {
		return err
	}
	figures, err := rounds.ReadMetrics(m.Dir)
	if err != nil {
		return err
	}
	values := figures[round-1].Values
	m.kept, m.chosen = m.keep(answer), weights{values["tilt"], values["cap"], values["kappa"]}
	return nil
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	answer, err := r.Collect(m.question)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	m.kept, m.chosen = m.keep(answer), fixed
	r.Figures.Set("tokens", float64(len(m.kept.tokens)))
	r.Figures.Set("pairs", float64(m.kept.pairs))
	if m.Given.Small.Predict != nil {
		if err := r.Stage("measure", func(rounds.Stage) error { return m.measure(r) }); err != nil {
			return err
		}
	}
	r.Figures.Set("tilt", m.chosen.tilt)
	r.Figures.Set("cap", m.chosen.cap)
	r.Figures.Set("kappa", m.chosen.kappa)
	return nil
}

// measure notes the loss on the validation clients without and with the table, nats a token, and chooses by it where
// trainer.select says so. If no table is best, the state before the round is as good, and is published.
func (m *Method) measure(r *rounds.Round) error {
	l := m.kept.newLosses()
	if err := m.Given.Small.Predict(m.part, l.add); err != nil {
		return err
	}
	at := slices.Index(candidates, fixed)
	if m.Config.SelectsBy() == configs.ValidationLoss {
		for i, loss := range l.of {
			if loss < l.of[at] {
				at = i
			}
		}
	}
	m.chosen = candidates[at]
	r.Figures.Set(configs.ValidationLoss, l.of[0]/l.n)
	r.Figures.Set(configs.ValidationLoss+rounds.After, l.of[at]/l.n)
	return nil
}

// Model implements rounds.ModelMethod.
func (m *Method) Model(_ rounds.Stage, dir string) error {
	if err := m.part.Model.SaveLike(m.Given.Small.Dir, dir, safetensors.F32); err != nil || m.kept == nil {
		return err
	}
	return m.kept.table(m.chosen).Write(dir)
}
