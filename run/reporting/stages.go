package reporting

import (
	"path/filepath"
	"slices"

	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/show/eventlog"
	"popri/show/report"
)

// Shared adds up the times that a page for others may have: without the stage that reads the train clients' texts,
// whose time depends on them. So does the memory of every stage, which no page has.
func Shared(dir string) (stages []report.Stage, rounds map[int]float64, err error) {
	return timesOf(dir, private)
}

// private is the stage that reads train clients' texts.
const private = rounds.StageCollect

// timesOf adds up the time of each stage of a run but one, over rounds and resumptions, in the order of their first
// end. Rounds are the seconds of each round's stages.
func timesOf(dir, without string) (stages []report.Stage, rounds map[int]float64, err error) {
	rounds = map[int]float64{}
	for e, err := range eventlog.Read(filepath.Join(dir, rundir.Events)) {
		if err != nil {
			return stages, rounds, err
		}
		name := e.Text("stage")
		took, ok := e.Fields["seconds"].(float64)
		if e.Name != "stage_end" || !ok || name == without {
			continue
		}
		i := slices.IndexFunc(stages, func(s report.Stage) bool { return s.Name == name })
		if i < 0 {
			i, stages = len(stages), append(stages, report.Stage{Name: name})
		}
		stages[i].Seconds += took
		if round := int(e.Number("round")); round > 0 {
			rounds[round] += took
		}
	}
	return stages, rounds, nil
}

// endedBy is why a run's method ended it after the given round, as the log says; "" if it did not.
func endedBy(dir string, round int) (why string, err error) {
	for e, err := range eventlog.Read(filepath.Join(dir, rundir.Events)) {
		if err != nil {
			return "", err
		}
		if e.Name == rounds.EndedEvent && int(e.Number("round")) == round {
			why = e.Text("why")
		}
	}
	return why, nil
}
