// Package popri is POPri (Preference Optimization for Private Client Data): per prompt, the best-scored sample and the
// one at rank ℓ form a preference pair, and DPO steps move the adapters towards the first (section 3 of the paper).
package popri

import (
	"context"
	"errors"
	"path/filepath"

	"popri/dpo"
	"popri/dpo/preference"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/scoring"
)

// Figures of a round: the mean scores of its pairs.
const chosenKey, rejectedKey = "score/chosen", "score/rejected"

// Files of a round, besides the policy's.
const (
	pairsFile     = rundir.Pairs
	referenceFile = "reference.safetensors" // log-probabilities of the round's pairs under the reference
	trlDir        = "trl"                   // what TRL is given and leaves, until the round is done
)

// Method runs POPri.
type Method struct {
	*policy.Policy
	dpo     *dpo.Tuner
	weights string // hash of the model's
}

// newMethod makes the method.
func newMethod(e method.Env) (rounds.Method, error) {
	p, err := policy.New(e)
	if err == nil {
		err = fault.User(preference.CheckMeasures(e.Config.DPO, e.Config.DPO.EvalShare > 0, e.Reference != nil))
	}
	return &Method{Policy: p}, err
}

// Close implements rounds.Method.
func (m *Method) Close() {
	if m.dpo != nil {
		m.dpo.Optimizer.Free()
	}
	m.Policy.Close()
}

// Restore implements rounds.Method.
func (m *Method) Restore(round int) error {
	if err := m.Policy.Restore(round); err != nil {
		return err
	}
	return m.restoreDPO(round)
}

// Round implements rounds.Method.
func (m *Method) Round(ctx context.Context, r *rounds.Round) error {
	var pairs []dpo.Pair
	err := m.Begin(ctx, r, "pairs", func(c policy.Candidates, scores []float64) (err error) {
		pairs, err = m.pairs(r, c, scores)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.Stage("dpo", func(s rounds.Stage) error { return m.tune(ctx, r, s, pairs) }); err != nil {
		return err
	}
	return m.End(ctx, r, m.dpo.Optimizer)
}

// duplicates converts the setting scoring.duplicates.
func duplicates(name string) scoring.Duplicates {
	switch name {
	case "index":
		return scoring.ByIndex
	case "published":
		return scoring.Published
	}
	return scoring.SkipDuplicates
}

// pairs turns scores into preference pairs and writes them. All of it is post-processing.
func (m *Method) pairs(r *rounds.Round, candidates policy.Candidates, scores []float64) ([]dpo.Pair, error) {
	c, texts, j := m.Config, candidates.Texts(), m.Config.Generate.Samples
	ranking, err := scoring.Rank(scores, texts, j, c.DPO.RejectedRank, duplicates(c.Scoring.Duplicates))
	if err != nil {
		return nil, err
	}
	skipped, chosenScore, rejectedScore := ranking.Skipped, 0.0, 0.0
	var pairs []dpo.Pair
	for _, p := range ranking.Pairs {
		chosen, rejected := p.Prompt*j+p.Chosen, p.Prompt*j+p.Rejected
		if texts[chosen] == "" || len(candidates.Rows[rejected].IDs) == 0 {
			skipped++
			continue
		}
		prompt := candidates.Prompts[p.Prompt]
		pairs = append(pairs, dpo.Pair{
			Prompt: prompt.IDs, PromptText: prompt.Text, PromptIndex: p.Prompt,
			Chosen: candidates.Rows[chosen].IDs, ChosenText: texts[chosen], ChosenIndex: p.Chosen,
			ChosenScore: scores[chosen],
			Rejected:    candidates.Rows[rejected].IDs, RejectedText: texts[rejected], RejectedIndex: p.Rejected,
			RejectedScore: scores[rejected],
			RejectedRank:  c.DPO.RejectedRank, Round: r.Number})
		chosenScore += scores[chosen]
		rejectedScore += scores[rejected]
	}
	if len(pairs) == 0 {
		return nil, errors.New("no prompt gave a preference pair: the samples of each prompt are too alike (raise " +
			"the temperature, or lower dpo.rejected_rank)")
	}
	n := float64(len(pairs))
	for key, v := range map[string]float64{"pairs": n, "skipped_prompts": float64(skipped),
		"duplicates": float64(ranking.Duplicates),
		"ties":       float64(ranking.Ties), chosenKey: chosenScore / n, rejectedKey: rejectedScore / n} {
		r.Figures.Set(key, v)
	}
	if err := m.distances(r, candidates, pairs); err != nil {
		return nil, err
	}
	return pairs, dpo.WritePairs(filepath.Join(r.Dir, pairsFile), pairs)
}

// distances measures how far the chosen and the rejected samples are from the reference (Figure 9 of the paper).
func (m *Method) distances(r *rounds.Round, candidates policy.Candidates, pairs []dpo.Pair) error {
	if len(pairs) < 2 {
		return nil // no covariance
	}
	j := m.Config.Generate.Samples
	for key, index := range map[string]func(dpo.Pair) int{
		"fid/chosen":   func(p dpo.Pair) int { return p.ChosenIndex },
		"fid/rejected": func(p dpo.Pair) int { return p.RejectedIndex },
	} {
		side := candidates.Vectors.Pick(numeric.Map(pairs, func(p dpo.Pair) int { return p.PromptIndex*j + index(p) }))
		if err := m.NoteDistance(r, key, side); err != nil {
			return err
		}
	}
	return nil
}
