package policy

import (
	"context"

	"popri/configs"
	"popri/methods/method"
	"popri/methods/rounds"
)

// Feedback is how a run learns what clients think of its candidates. It owns the question and the reading of the
// answer. There are three kinds: [EachRound] asks for the cosines of every round's samples with the mean of a client's texts, [PerText] has each
// text answer, and [Single] asks once for what scores any text.
type Feedback interface {
	// Facts are what is known of it before a run.
	Facts() Facts
	// Begin prepares a round, before its prompts are drawn.
	Begin(ctx context.Context, r *rounds.Round) error
	// Ask returns the clients' answer about the round's candidates.
	Ask(r *rounds.Round, c Candidates) (Answer, error)
}

// Facts are what is known of a kind of feedback under a configuration.
type Facts struct {
	Query    string  // name of the clients' query
	Bound    float64 // norm bound of their vectors
	Releases int     // how often they are asked
	Texts    bool    // they answer by each text's embedding instead of their mean
	Denoise  string  // how noise is removed from a release; "" if it is not
	Traffic  method.Traffic
	Notes    []string // how releases are read, for the report
}

// Answer is what clients said about candidates.
type Answer interface {
	// Scores returns, for each candidate, the noised mean score as it was released, and the score by the configured
	// objective with noise removed. All of it is post-processing. The reading's figures go to the round.
	Scores(r *rounds.Round) (noisy, scores []float64, err error)
}

// newFeedback makes the kind that scoring.release names.
func newFeedback(p *Policy) Feedback {
	switch p.Config.Scoring.Release {
	case "once":
		return &Single{policy: p}
	case "votes", "clipped":
		return &PerText{&p.Env}
	}
	return &EachRound{Env: &p.Env}
}

// factsOf are the facts of the kind that scoring.release names.
func factsOf(c configs.Config) Facts { return newFeedback(&Policy{Env: method.Env{Config: c}}).Facts() }
