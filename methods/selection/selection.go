// Package selection is the baseline that tunes nothing: one private release says which public texts resemble the
// clients', and these texts are the synthetic set. Package target has the formulas.
//
//	clients   v_i = C · (m_i − μ)/‖m_i − μ‖      m_i mean embedding of client i, μ mean of all public texts
//	release   y = Σ v_i + N(0, σ²C²)             once, so that rounds, prompts and samples cost no privacy
//	public    s_j = ⟨x_j − μ, y⟩                  the witness of the mean discrepancy at public text j
//	          relevance: s_j, with the means of its document and of its folder (scoring.Relevance)
//
// Everything after the release is post-processing. The texts are public, but which of them were selected depends on the
// clients, within ε.
package selection

import (
	"context"
	"fmt"

	"popri/configs"
	"popri/internal/rows"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/model/embedding"
	"popri/show/series"
)

// Description describes the method.
var Description = method.Description{
	Method:  configs.Method{Name: "public_selection"},
	Clients: method.Clients{Query: target.Query, Rounds: func(configs.Config) int { return 1 }, Traffic: target.Traffic},
	New:     func(e method.Env) (rounds.Method, error) { return &Method{e}, target.Check(e) },
	Series:  figures,
	Cost:    func(configs.Config) method.Cost { return method.Cost{} },
	Words: method.Words{
		Title: "Public selection",
		About: "tunes nothing: one release selects public texts",
		Work: func(c configs.Config) string {
			return fmt.Sprintf("weights for the %d most relevant public texts", target.Candidates(c))
		},
		Product: "public texts that resemble the clients' by one noised mean embedding",
		Publishes: func(c configs.Config) string {
			return fmt.Sprintf("%d public texts, chosen by the noised release", target.RowsOf(c))
		},
		Notes: func(c configs.Config) []string {
			return []string{"The clients were asked once, for " + target.Asked(c) + ". Every score of every public text " +
				"follows from that release and costs no privacy.",
				"A public text's relevance counts the mean score of its " +
					"document and of its folder, which are public."}
		},
	},
}

var figures = series.Set{
	Columns: []series.Series{
		{Key: "pool", Name: "Public texts", Format: series.Count},
		{Key: "selected", Name: "Selected", Format: series.Count},
		{Key: "documents", Name: "Documents", Format: series.Count},
		{Key: "effective", Name: "Effective size", Format: series.Count},
		{Key: "distance", Name: "Distance of the means", Format: series.Number, Decimals: 4},
		{Key: "score", Name: "Mean score", Format: series.Number, Decimals: 3},
		{Key: "fid", Name: "FID", Format: series.Number, Decimals: 4},
	},
}

// Method runs the selection. It keeps no state: the results of a round are in its folder.
type Method struct{ method.Env }

// Restore implements rounds.Method.
func (m *Method) Restore(int) error { return nil }

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	var pool *target.Pool
	err := r.Stage("embed", func(s rounds.Stage) (err error) {
		pool, err = target.Embed(ctx, m.Env, s.Progress)
		return err
	})
	if err != nil {
		return err
	}
	t, err := target.Ask(m.Env, r, pool)
	if err != nil {
		return err
	}
	return r.Stage("select", func(rounds.Stage) error {
		selection, err := t.Choose(m.Config)
		if err != nil {
			return err
		}
		if err := m.note(r, t, selection); err != nil {
			return err
		}
		return target.Write(m.Dir, selection.Chosen)
	})
}

// note keeps the figures of the selection.
func (m *Method) note(r *rounds.Round, t *target.Target, s target.Selection) error {
	vectors := embedding.Matrix{Dim: t.Vectors.Dim}
	documents := map[string]bool{}
	score := 0.0
	for _, c := range s.Chosen {
		for range c.Copies {
			vectors.Data = append(vectors.Data, t.Vectors.Row(int(c.Index))...)
			vectors.Rows++
		}
		documents[c.Source] = true
		score += c.Weight * c.Score
	}
	if err := m.NoteDistance(r, "fid", vectors); err != nil {
		return err
	}
	for key, v := range map[string]float64{"pool": float64(len(t.Texts)), "selected": float64(len(s.Chosen)),
		"documents": float64(len(documents)), "score": score, "effective": s.Effective, "distance": s.Distance} {
		r.Figures.Set(key, v)
	}
	return nil
}

// Product implements rounds.Method: the selected texts are the synthetic set.
func (m *Method) Product(_ context.Context, _ rounds.Stage, file string) ([]sampling.Row, error) {
	chosen, err := target.Read(m.Dir)
	if err != nil {
		return nil, err
	}
	out := target.Rows(chosen, target.RowsOf(m.Config), m.Config.Seed)
	return out, rows.Write(file, out)
}
