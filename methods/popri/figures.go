package popri

import (
	"context"
	"strconv"

	"popri/dpo"
	"popri/internal/rng"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/model/tensor"
)

// referenceEvent describes the reference log-probabilities in the log.
func referenceEvent(c dpo.Cached) map[string]any {
	event := map[string]any{"read": c.Read}
	if c.Stale != nil {
		event["not_read"] = c.Stale.Error()
	}
	return event
}

// note keeps the figures of a round's training.
func (m *Method) note(r *rounds.Round, f *dpo.Fit, o *dpo.Outcome, held int) {
	set := r.Figures.Set
	set("held_out", float64(held))
	set("steps", float64(len(o.Steps)))
	for _, s := range o.Steps {
		n := float64(len(o.Steps))
		r.Figures.Add("loss", s.Loss/n)
		r.Figures.Add("rewards/accuracies", s.Accuracy/n)
		r.Figures.Add("grad_norm", s.GradNorm/n)
		r.Figures.Add("rewards/margins", s.RewardsMargins/n)
	}
	if n := len(o.Evals); n > 0 {
		e := o.Evals[n-1]
		if f.KeepBest {
			e = o.Evals[o.Best]
		}
		set("eval_step", float64(e.Step))
		r.Figures.SetIf("eval_fid", e.FID)
		if held > 0 {
			set("eval_loss", e.Loss)
			set("eval_rewards/accuracies", e.Accuracy)
			set("eval_rewards/margins", e.RewardsMargins)
		}
	}
}

// judge returns the Fréchet distance of fresh samples of the current adapters to the reference. Prompts and random
// numbers are the same throughout a round, so that measurements differ by the adapters alone.
func (m *Method) judge(ctx context.Context, r *rounds.Round) (float64, error) {
	seed := m.Config.Seed
	wanted, perPrompt := m.Config.Generate.FIDDraws()
	stream := []string{"round", strconv.Itoa(r.Number), "fid"}
	prompts, err := m.Prompter.Draw(rng.New(seed, append(stream, "prompts")...), wanted)
	if err != nil {
		return 0, err
	}
	var drawn []sampling.Row
	err = m.WithSampler(m.Adapter, func(model sampling.Sampler) error {
		drawn, err = m.Writer.Draw(ctx, model, m.Writer.Batch(m.Prompter, prompts, perPrompt,
			rng.Seed(seed, append(stream, "generate")...), ""))
		return err
	})
	if err != nil {
		return 0, err
	}
	vectors, err := m.Encoder.Encode(policy.Candidates{Rows: drawn}.Texts())
	if err != nil {
		return 0, err
	}
	tensor.Trim()
	distance, err := m.Distance(vectors)
	if err != nil {
		return 0, err
	}
	return *distance, nil
}
