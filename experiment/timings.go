package experiment

import (
	"encoding/json"
	"path/filepath"
	"time"

	"popri/report"
	"popri/rundir"
	"popri/series"
	"popri/trainer"
)

// EventsFile holds every event of a run, one object a line.
const EventsFile = rundir.Events

// timings writes the run's events. The report computes the stages' times from them and adds up those of a resumed run.
type timings struct{ file *report.Events }

func openTimings(dir string) (*timings, error) {
	f, err := report.OpenEvents(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, err
	}
	return &timings{f}, nil
}

func (t *timings) close() {
	if t != nil && t.file != nil {
		t.file.Close()
	}
}

// The log is secondary to the stages' own files: a line that cannot be written must not end a run.
func (t *timings) write(event string, fields map[string]any) { _ = t.file.Write(event, fields) }

func (t *timings) events() trainer.Events {
	return trainer.Events{
		StageEnd: func(s trainer.Stage) {
			t.write("stage_end", map[string]any{"stage": s.Name, "round": s.Round, "seconds": s.Took.Seconds()})
		},
		Log:      func(event string, round int, v any) { t.write(event, fields(round, v)) },
		RoundEnd: func(r series.Round) { t.write("round_end", fields(r.Number, r)) },
	}
}

// fields are the names and values of v as JSON, and the round.
func fields(round int, v any) map[string]any {
	f := map[string]any{}
	if b, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(b, &f)
	}
	f["round"] = round
	return f
}

// stage reports f like a stage of the trainer.
func (t *timings) stage(name string, f func() error) error {
	begun := time.Now()
	if err := f(); err != nil {
		return err
	}
	t.write("stage_end", map[string]any{"stage": name, "round": 0, "seconds": time.Since(begun).Seconds()})
	return nil
}

// Seconds adds up the time of each stage of a run, over rounds and resumptions, in the order of their first end, and of
// each round over its stages.
func Seconds(dir string) (names []string, seconds map[string]float64, rounds map[int]float64, err error) {
	seconds, rounds = map[string]float64{}, map[int]float64{}
	for e, err := range report.ReadEvents(filepath.Join(dir, EventsFile)) {
		if err != nil {
			return names, seconds, rounds, err
		}
		name, _ := e.Fields["stage"].(string)
		took, ok := e.Fields["seconds"].(float64)
		if e.Name != "stage_end" || !ok {
			continue
		}
		if _, seen := seconds[name]; !seen {
			names = append(names, name)
		}
		seconds[name] += took
		if round, ok := e.Fields["round"].(float64); ok && round > 0 {
			rounds[int(round)] += took
		}
	}
	return names, seconds, rounds, nil
}
