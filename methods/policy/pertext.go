package policy

import (
	"context"
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/floats"

	"popri/fedsim/release"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/scoring"
	"popri/scoring/query"
)

// PerText asks the clients in every round a question that each of their texts answers: which samples are nearest to it, as Private
// Evolution does (POPri, Figure 6; scoring.release "votes"), or how similar it is to each, clipped, as DP-RFT does ("clipped").
type PerText struct{ *method.Env }

func (f *PerText) clips() bool { return f.Config.Scoring.Release == "clipped" }

func (f *PerText) votes() scoring.VoteOptions {
	return scoring.VoteOptions{Metric: scoring.L2, Choices: 1, Bound: f.Config.Scoring.ClipNorm}
}

// Facts implements [Feedback].
func (f *PerText) Facts() Facts {
	facts := (&EachRound{Env: f.Env}).Facts()
	facts.Query, facts.Texts = f.votes().Name(), true
	facts.Notes = []string{"Each text of a client voted for the sample nearest to it. A sample's score is the " +
		"clients' mean number of votes."}
	if most := f.Config.Scoring.ClipCosine; f.clips() {
		facts.Query = scoring.ClippedCosineName(most)
		facts.Notes = []string{fmt.Sprintf(
			"A sample's score is the mean of its cosines with a client's texts, each clipped to ±%g.", most)}
	}
	facts.Query = scoring.CheckedName(facts.Query, scoring.RoundChecks)
	facts.Traffic.Sent += facts.Releases * scoring.RoundChecks
	return facts
}

// Begin implements [Feedback].
func (f *PerText) Begin(context.Context, *rounds.Round) error { return nil }

// Ask implements [Feedback].
func (f *PerText) Ask(r *rounds.Round, c Candidates) (Answer, error) {
	key, err := f.Key(filepath.Join(r.Dir, rundir.Samples))
	if err != nil {
		return nil, err
	}
	s, unit := f.Config.Scoring, 1.0
	var q query.Query
	if f.clips() {
		var asked scoring.ClippedCosine
		asked, err = scoring.NewClippedCosine(c.Vectors, s.ClipCosine, s.ClipNorm, key)
		q, unit = asked, asked.Scale()
	} else {
		q, err = scoring.NewVotes(c.Vectors, f.votes(), key)
	}
	if err != nil {
		return nil, err
	}
	answer, err := r.Collect(scoring.WithChecks(q, scoring.RoundChecks))
	return counted{answer, unit}, err
}

// counted is the release of a round's votes, or cosines in some unit.
type counted struct {
	*release.Release
	unit float64
}

// Scores implements [Answer].
func (a counted) Scores(*rounds.Round) (noisy, scores []float64, err error) {
	scores = a.Mean()
	scores = scores[:len(scores)-scoring.RoundChecks]
	floats.Scale(1/a.unit, scores)
	return scores, scores, nil
}
