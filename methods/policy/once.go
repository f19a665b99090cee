package policy

import (
	"context"
	"math"

	"popri/configs"
	"popri/methods/target"
	"popri/release"
	"popri/sampling"
	"popri/trainer"
)

// once reports whether clients are asked once for all rounds.
func once(c configs.Config) bool { return c.Scoring.Release == "once" }

// NeedsTexts reports whether clients answer by each text's embedding instead of their mean.
func NeedsTexts(c configs.Config) bool { return once(c) && target.HasFeatures(c) }

// compact reports whether clients send their scores in as few numbers as they have dimensions.
func compact(c configs.Config) bool { return c.Scoring.Release == "compact" }

// Releases is the number of times that clients are asked under a configuration.
func Releases(c configs.Config) int {
	if once(c) {
		return 1
	}
	return c.Trainer.Rounds
}

// Begin begins a round. If clients are asked once, it asks them in round 1, selects the public texts that are most
// relevant to them, and warms the adapters up on these texts.
func (p *Policy) Begin(ctx context.Context, r *trainer.Round) error {
	if !once(p.Config) {
		return nil
	}
	if p.pool == nil {
		if err := r.Stage("embed public texts", func(trainer.Stage) error { return p.embedPublic() }); err != nil {
			return err
		}
	}
	var err error
	if p.target, err = target.Ask(p.Env, r, p.pool); err != nil {
		return err
	}
	if r.Number > 1 {
		return nil
	}
	if p.selected == nil {
		err := r.Stage("select", func(trainer.Stage) error {
			selection, err := p.target.Choose(p.Config.PublicSelection, p.Config.Seed)
			if err != nil {
				return err
			}
			p.selected = selection.Chosen
			r.Figures.Set("selected", float64(len(selection.Chosen)))
			r.Figures.Set("selected_effective", selection.Effective)
			r.Figures.Set("selected_distance", selection.Distance)
			return target.Write(p.Dir, p.selected)
		})
		if err != nil {
			return err
		}
	}
	if p.Config.Warmup.Steps == 0 {
		return nil
	}
	return r.Stage("warm up", func(s trainer.Stage) error { return p.warmUp(ctx, r, s) })
}

// embedPublic embeds the public texts, once in a process.
func (p *Policy) embedPublic() (err error) {
	if p.pool == nil {
		p.pool, err = target.Embed(p.Env)
	}
	return err
}

// quoting returns the prompter that quotes what a setting names: "public", all public texts; "relevant", the selected
// ones; "scored", the best-scored samples of the first done rounds, and where there is none, the selected texts, or all
// public ones if the clients are asked in each round.
func (p *Policy) quoting(what string, done int) (*sampling.Prompter, error) {
	switch what {
	case "relevant":
		chosen, err := p.relevant()
		if err != nil {
			return nil, err
		}
		return p.Prompter.With(p.Prompter.Fitting(target.Texts(chosen))), nil
	case "scored":
		switch {
		case done == 0 && once(p.Config):
			return p.quoting("relevant", 0)
		case done == 0:
			return p.Prompter, nil
		}
		quotes, err := p.bestScored(done)
		if err != nil {
			return nil, err
		}
		return p.Prompter.With(quotes), nil
	}
	return p.Prompter, nil
}

// relevant returns the selected public texts.
func (p *Policy) relevant() (_ []target.Chosen, err error) {
	if p.selected == nil {
		p.selected, err = target.Read(p.Dir)
	}
	return p.selected, err
}

// fromTarget scores candidates by the release of round 1.
func (p *Policy) fromTarget(r *trainer.Round, c Candidates, _ *release.Release) (noisy, scores []float64, err error) {
	points := p.pool.PointsOf(c.Vectors)
	noisy = p.target.Scores(points)
	scores = noisy
	if p.Config.Scoring.Objective == "witness" {
		scores = p.target.Witness(points)
	}
	r.Figures.Set(trainer.Distance, math.Max(0, p.target.Distance(points)))
	return noisy, scores, nil
}
