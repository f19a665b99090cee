package tracking

import (
	"path/filepath"
	"time"

	"popri/internal/rundir"
	"popri/methods/policy"
	"popri/methods/rounds"
	"popri/run/evaluation"
	"popri/show/eventlog"
	"popri/show/trackers"
)

// history reads the figures of a run's files, in the order in which the run made them, and leaves the reader behind
// them. The rounds' own files say what there is. The event log, which a killed process may have left without a last
// line, says when it was.
func (t *Listener) history() (points []trackers.Point, err error) {
	type key struct {
		event string
		round int
		step  float64
	}
	times := map[key]time.Time{}
	for e, err := range eventlog.Read(filepath.Join(t.dir, rundir.Events)) {
		if err != nil {
			return nil, err
		}
		times[key{trackers.Kind(e.Name), int(e.Number("round")), e.Number("step")}] = e.Time
	}
	rounds, err := rounds.ReadMetrics(t.dir)
	if err != nil {
		return nil, err
	}
	t.rounds = len(rounds)
	for n := 1; n <= len(rounds)+1; n++ { // the last one is under way
		written := modified(rundir.Round(t.dir, n))
		at := func(event string, step float64) time.Time {
			if at, ok := times[key{event, n, step}]; ok {
				return at
			}
			return written
		}
		trained, err := t.training(n, at)
		points = append(points, trained...)
		if err != nil {
			return points, err
		}
		if n <= len(rounds) {
			points = append(points, t.reader.Read(trackers.RoundEnd, n, eventlog.Fields(n, rounds[n-1]),
				at(trackers.RoundEnd, 0))...)
		}
	}
	e, err := evaluation.Read(t.dir)
	if e == nil {
		return points, err
	}
	return append(points, t.accuracies(e, modified(filepath.Join(t.dir, rundir.Eval)))...), nil
}

// training reads the updates and measurements of a round. They are from the checkpoint while the training is under way.
func (t *Listener) training(round int, at func(event string, step float64) time.Time) ([]trackers.Point, error) {
	dir := rundir.Round(t.dir, round)
	p, err := readTraining(dir, filepath.Join(dir, policy.TrainingFile))
	return p.points(&t.reader, round, at), err
}
