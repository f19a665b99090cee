package experiment

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"popri/internal/memory"
	"popri/report"
	"popri/rundir"
	"popri/series"
	"popri/trainer"
)

// EventsFile holds every event of a run, one object a line.
const EventsFile = rundir.Events

// timings writes the run's events. The report computes the stages' times from them and adds up those of a resumed run.
type timings struct {
	file  *report.Events
	watch *memory.Watch // of the stage under way
}

func openTimings(dir string) (*timings, error) {
	f, err := report.OpenEvents(filepath.Join(dir, EventsFile))
	if err != nil {
		return nil, err
	}
	return &timings{file: f}, nil
}

func (t *timings) close() {
	if t != nil && t.file != nil {
		t.forget()
		t.file.Close()
	}
}

// The log is secondary to the stages' own files: a line that cannot be written must not end a run.
func (t *timings) write(event string, fields map[string]any) { _ = t.file.Write(event, fields) }

func (t *timings) events() trainer.Events {
	return trainer.Events{
		StageBegin: func(trainer.Stage) { t.begin() },
		StageEnd:   func(s trainer.Stage) { t.end(s.Name, s.Round, s.Took) },
		Log:        func(event string, round int, v any) { t.write(event, fields(round, v)) },
		RoundEnd:   func(r series.Round) { t.write("round_end", fields(r.Number, r)) },
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
	t.begin()
	if err := f(); err != nil {
		return err
	}
	t.end(name, 0, time.Since(begun))
	return nil
}

func (t *timings) begin() {
	t.forget()
	t.watch = memory.Begin()
}

// forget ends the watch of a stage that failed.
func (t *timings) forget() {
	if t.watch != nil {
		t.watch.End()
		t.watch = nil
	}
}

func (t *timings) end(name string, round int, took time.Duration) {
	t.write("stage_end", map[string]any{"stage": name, "round": round, "seconds": took.Seconds(),
		"peak_bytes": t.watch.End()})
	t.watch = nil
}

// Stages adds up the time of each stage of a run, over rounds and resumptions, in the order of their first end, with the
// most memory that it had. Rounds are the seconds of each round's stages.
func Stages(dir string) (stages []report.Stage, rounds map[int]float64, err error) {
	rounds = map[int]float64{}
	for e, err := range report.ReadEvents(filepath.Join(dir, EventsFile)) {
		if err != nil {
			return stages, rounds, err
		}
		name, _ := e.Fields["stage"].(string)
		took, ok := e.Fields["seconds"].(float64)
		if e.Name != "stage_end" || !ok {
			continue
		}
		i := slices.IndexFunc(stages, func(s report.Stage) bool { return s.Name == name })
		if i < 0 {
			i, stages = len(stages), append(stages, report.Stage{Name: name})
		}
		stages[i].Seconds += took
		peak, _ := e.Fields["peak_bytes"].(float64)
		stages[i].PeakBytes = max(stages[i].PeakBytes, int64(peak))
		if round, ok := e.Fields["round"].(float64); ok && round > 0 {
			rounds[int(round)] += took
		}
	}
	return stages, rounds, nil
}
