package policy

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"popri/datasets"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/methods/target"
	"popri/model/embedding"
)

// Single asks the clients once, before the first round, for their mean embedding (package target). Every score of a
// sample and of a public text follows from that release, so that rounds, prompts and samples cost no privacy.
type Single struct {
	policy   *Policy
	pool     *target.Pool    // the public texts; nil until they are embedded
	target   *target.Target  // the release; nil until it is asked for
	selected []target.Chosen // the public texts that are most relevant to the clients
	found    []datasets.Text // with generate.kinds, the samples that round 1 quotes
}

// Facts implements [Feedback]. Nothing is denoised: scores take the whole direction of a mean embedding.
func (f *Single) Facts() Facts {
	c := f.policy.Config
	facts := Facts{Releases: 1, Traffic: target.Traffic(c), Notes: []string{target.Note(c)}}
	facts.Query, facts.Bound = target.Query(c)
	return facts
}

// Begin implements [Feedback]. In round 1 it asks the clients and selects the public texts that are most relevant to them.
func (f *Single) Begin(ctx context.Context, r *rounds.Round) error {
	p := f.policy
	if f.pool == nil {
		if err := r.Stage("embed public texts", func(s rounds.Stage) error { return f.embedPublic(ctx, s) }); err != nil {
			return err
		}
	}
	var err error
	if f.target, err = target.Ask(p.Env, r, f.pool); err != nil {
		return err
	}
	if r.Number > 1 {
		_, err := p.form()
		return err
	}
	if p.Config.Scoring.Form > 0 {
		if err := r.Stage("read the form", func(s rounds.Stage) error { return f.readForm(r, s) }); err != nil {
			return err
		}
	}
	if f.selected == nil {
		if err := r.Stage("select", func(rounds.Stage) error { return f.choose(r) }); err != nil {
			return err
		}
	}
	if p.Given.Kinds != nil {
		if err := r.Stage("find kinds of text", func(s rounds.Stage) error { return f.findKinds(ctx, r, s) }); err != nil {
			return err
		}
	}
	return nil
}

// embedPublic embeds the public texts, once in a process.
func (f *Single) embedPublic(ctx context.Context, s rounds.Stage) (err error) {
	if f.pool == nil {
		f.pool, err = target.Embed(ctx, f.policy.Env, s.Progress)
	}
	return err
}

// choose selects the public texts that are most relevant to the clients.
func (f *Single) choose(r *rounds.Round) error {
	selection, err := f.target.Choose(f.policy.Config)
	if err != nil {
		return err
	}
	f.selected = selection.Chosen
	r.Figures.Set("selected", float64(len(selection.Chosen)))
	r.Figures.Set("selected_effective", selection.Effective)
	r.Figures.Set("selected_distance", selection.Distance)
	r.Figures.Set(rounds.PublicDistance, floats.Norm(f.target.Mean, 2))
	return target.Write(f.policy.Dir, f.selected)
}

// relevant returns the selected public texts.
func (p *Policy) relevant() ([]target.Chosen, error) {
	f, err := p.single()
	if err == nil && f.selected == nil {
		f.selected, err = target.Read(p.Dir)
	}
	if err != nil {
		return nil, err
	}
	return f.selected, nil
}

// Ask implements [Feedback]: the clients have answered in [Single.Begin].
func (f *Single) Ask(_ *rounds.Round, c Candidates) (Answer, error) { return &singleAnswer{f, c}, nil }

// singleAnswer reads the one release for candidates.
type singleAnswer struct {
	*Single
	candidates Candidates
}

// Scores implements [Answer].
func (a *singleAnswer) Scores(r *rounds.Round) (noisy, scores []float64, err error) {
	vectors := a.candidates.Vectors
	noisy, scores = a.score(a.target, vectors)
	r.Figures.Set(rounds.Distance, a.target.Distance(vectors))
	r.Figures.Set(rounds.Distance+rounds.Chance, a.target.Chance(vectors, a.policy.Config.Generate.Samples))
	return noisy, scores, nil
}

// score returns the noised mean score of vectors and the score by the configured objective.
func (f *Single) score(t *target.Target, vectors embedding.Matrix) (noisy, scores []float64) {
	noisy = t.Scores(vectors)
	if f.policy.Config.Scoring.Objective == "witness" {
		return noisy, t.Witness(vectors)
	}
	return noisy, noisy
}

// distance is the released distance of samples from the clients, and its standard error.
func (f *Single) distance(ctx context.Context, s rounds.Stage, c Candidates) (distance, chance float64, err error) {
	vectors, err := embedding.InParts(ctx, f.policy.Encoder, c.Texts(), s.Progress)
	if err != nil {
		return 0, 0, err
	}
	return f.target.Distance(vectors), f.target.Chance(vectors, f.policy.Config.Generate.Samples), nil
}

// again reads the release once more, for a product or an evaluation.
func (f *Single) again(ctx context.Context, s rounds.Stage) (*target.Target, error) {
	if err := f.embedPublic(ctx, s); err != nil {
		return nil, err
	}
	return target.Again(f.policy.Env, f.pool)
}

// keep draws as many rows as there are from the written texts, by weights with a mean embedding near the clients'.
func (f *Single) keep(ctx context.Context, s rounds.Stage, written []sampling.Row) ([]sampling.Row, error) {
	t, err := f.again(ctx, s)
	if err != nil {
		return nil, err
	}
	c := f.policy.Config
	out, kept, err := t.Keep(ctx, f.policy.Encoder, written, c.Synthetic.Texts, c.Synthetic.Kept, c.Seed, s.Progress)
	if err != nil {
		return nil, err
	}
	s.Log("kept", kept)
	return out, nil
}
