package rounds

import (
	"path/filepath"

	"popri/accountant/guarantee"
	"popri/fedsim/release"
	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/scoring/query"
	"popri/show/series"
)

// Round is the environment of a method in one round.
type Round struct {
	Number  int // from 1
	Dir     string
	Figures *series.Round // goes to metrics.json

	runner *Runner
}

// Stage does a part of the round under a name.
func (r *Round) Stage(name string, f func(Stage) error) error {
	return r.runner.Stage(name, r.Number, f)
}

// Log reports an event of the method's own.
func (r *Round) Log(event string, v any) { r.runner.Events.Log(event, r.Number, v) }

// StageCollect is the stage in which clients answer.
const StageCollect = "collect"

// Collect asks the clients and notes the release's figures.
func (r *Round) Collect(q query.Question) (*release.Release, error) { return r.collect(q, r.Number) }

// CollectOnce asks a question whose answer serves all rounds. Round 1 asks it; later rounds get the same release.
func (r *Round) CollectOnce(q query.Question) (*release.Release, error) { return r.collect(q, 1) }

// CollectPart asks the question of a part of the round, from 1. It is no stage of its own: a round may have very many.
func (r *Round) CollectPart(q query.Question, part int) (*release.Release, error) {
	return r.runner.Clients.Collect(release.Request{Round: r.Number, Part: part, Query: q, Dir: r.Dir})
}

// NoteSpent notes what is spent, after the last part of a round.
func (r *Round) NoteSpent() error {
	if r.runner.Spent == nil {
		return nil
	}
	spent, err := r.runner.Spent()
	if err == nil {
		r.Figures.Set(series.EpsilonKey, spent)
	}
	return err
}

// collect asks the question of a round: a round that was answered before gets the same release and charges nothing.
func (r *Round) collect(q query.Question, round int) (answer *release.Release, err error) {
	dir := rundir.Round(r.runner.Dir, round)
	err = r.Stage(StageCollect, func(stage Stage) error {
		answer, err = r.runner.Clients.Collect(release.Request{Round: round, Query: q, Dir: dir, Progress: stage.Progress})
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Figures.Set("clients", float64(answer.Clients))
	r.Figures.Set("noise_multiplier", answer.Sigma)
	var refused guarantee.Refusals
	if there, err := atomicfile.ReadJSONIfAny(filepath.Join(dir, rundir.Refusals), &refused); err != nil {
		return nil, err
	} else if there {
		r.Figures.Set("refused_unproved", float64(refused.Unproved))
		r.Figures.Set("refused_invalid", float64(refused.Invalid))
	}
	return answer, r.NoteSpent()
}
