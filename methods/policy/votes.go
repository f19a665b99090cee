package policy

import (
	"context"
	"path/filepath"

	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/scoring"
)

// Votes asks the clients in every round which samples are nearest to their texts, as Private Evolution does: a sample's
// score is the number of votes for it (POPri, Figure 6; scoring.release "votes").
type Votes struct{ *method.Env }

func (f *Votes) options() scoring.VoteOptions {
	return scoring.VoteOptions{Metric: scoring.L2, Choices: 1, Bound: f.Config.Scoring.ClipNorm}
}

// Query implements [Feedback].
func (f *Votes) Query() (name string, bound float64) {
	return scoring.CheckedName(f.options().Name(), scoring.RoundChecks), f.options().Bound
}

// Releases implements [Feedback].
func (f *Votes) Releases() int { return f.Config.Trainer.Rounds }

// NeedsTexts implements [Feedback]: each text votes.
func (f *Votes) NeedsTexts() bool { return true }

// Denoise implements [Feedback].
func (f *Votes) Denoise() string { return f.Config.Scoring.Denoise }

// Traffic implements [Feedback].
func (f *Votes) Traffic() method.Traffic {
	t := (&EachRound{Env: f.Env}).Traffic()
	t.Sent += f.Config.Trainer.Rounds * scoring.RoundChecks
	return t
}

// Notes implements [Feedback].
func (f *Votes) Notes() []string {
	return []string{"Each text of a client voted for the sample nearest to it. A sample's score is the clients' mean " +
		"number of votes."}
}

// Begin implements [Feedback].
func (f *Votes) Begin(context.Context, *rounds.Round) error { return nil }

// Ask implements [Feedback].
func (f *Votes) Ask(r *rounds.Round, c Candidates) (Answer, error) {
	key, err := f.Key(filepath.Join(r.Dir, rundir.Samples))
	if err != nil {
		return nil, err
	}
	q, err := scoring.NewVotes(c.Vectors, f.options(), key)
	if err != nil {
		return nil, err
	}
	answer, err := r.Collect(scoring.WithChecks(q, scoring.RoundChecks))
	return counted{answer}, err
}

// counted is the release of a round's votes.
type counted struct{ *release.Release }

// Scores implements [Answer].
func (a counted) Scores(*rounds.Round) (noisy, scores []float64, err error) {
	scores = a.Mean()
	scores = scores[:len(scores)-scoring.RoundChecks]
	return scores, scores, nil
}
