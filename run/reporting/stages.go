package reporting

import (
	"path/filepath"
	"slices"

	"popri/internal/rundir"
	"popri/show/eventlog"
	"popri/show/report"
)

// Stages adds up the time of each stage of a run, over rounds and resumptions, in the order of their first end, with the
// most memory that it had. Rounds are the seconds of each round's stages.
func Stages(dir string) (stages []report.Stage, rounds map[int]float64, err error) {
	rounds = map[int]float64{}
	for e, err := range eventlog.Read(filepath.Join(dir, rundir.Events)) {
		if err != nil {
			return stages, rounds, err
		}
		name := e.Text("stage")
		took, ok := e.Fields["seconds"].(float64)
		if e.Name != "stage_end" || !ok {
			continue
		}
		i := slices.IndexFunc(stages, func(s report.Stage) bool { return s.Name == name })
		if i < 0 {
			i, stages = len(stages), append(stages, report.Stage{Name: name})
		}
		stages[i].Seconds += took
		stages[i].PeakBytes = max(stages[i].PeakBytes, int64(e.Number("peak_bytes")))
		if round := int(e.Number("round")); round > 0 {
			rounds[round] += took
		}
	}
	return stages, rounds, nil
}
