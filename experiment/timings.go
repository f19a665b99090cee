package experiment

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"popri/eventlog"
	"popri/internal/memory"
	"popri/report"
	"popri/run/evaluator"
	"popri/rundir"
	"popri/series"
	"popri/trainer"
)

// judgeStage is the stage in which a small model is trained and judged by an adaptive ablation.
const judgeStage = "judge"

// aliveEvery is the time between two events about a stage under way, by which whoever follows the log sees that the process
// lives. In ten hours they are one megabyte.
const aliveEvery = 5 * time.Second

// timings writes the run's events. The report computes the stages' times from them and adds up those of a resumed run.
type timings struct {
	file  *eventlog.Log
	stage *underway
}

// underway is a stage that has begun.
type underway struct {
	name  string
	round int
	watch *memory.Watch
	ended chan struct{} // closed at its end
	// alive waits for the goroutine that reports progress, so that no event of the stage follows its end.
	alive       sync.WaitGroup
	done, total atomic.Int64
}

func openTimings(dir string) (*timings, error) {
	f, err := eventlog.Open(filepath.Join(dir, rundir.Events))
	if err != nil {
		return nil, err
	}
	return &timings{file: f}, nil
}

func (t *timings) close() {
	if t != nil && t.file != nil {
		t.forget()
		t.write("close", nil)
		t.file.Close()
	}
}

// The log is secondary to the stages' own files: a line that cannot be written must not end a run.
func (t *timings) write(event string, fields map[string]any) { _ = t.file.Write(event, fields) }

func (t *timings) events() trainer.Events {
	return trainer.Events{
		StageBegin: func(s trainer.Stage) { t.begin(s.Name, s.Round) },
		Progress:   func(_ trainer.Stage, done, total int) { t.progress(done, total) },
		StageEnd:   func(s trainer.Stage) { t.end(s.Took) },
		Log:        func(event string, round int, v any) { t.write(event, eventlog.Fields(round, v)) },
		RoundEnd:   func(r series.Round) { t.write("round_end", eventlog.Fields(r.Number, r)) },
	}
}

// run reports f like a stage of the trainer.
func (t *timings) run(name string, f func() error) error {
	begun := time.Now()
	t.begin(name, 0)
	if err := f(); err != nil {
		return err
	}
	t.end(time.Since(begun))
	return nil
}

// counting makes the updates of an evaluation's models the parts of its stage.
func (t *timings) counting(p evaluator.Progress) evaluator.Progress {
	listener := p.Updated
	p.Updated = func(done, planned int) {
		t.progress(done, planned)
		if listener != nil {
			listener(done, planned)
		}
	}
	return p
}

func (t *timings) begin(name string, round int) {
	t.forget()
	s := &underway{name: name, round: round, watch: memory.Begin(), ended: make(chan struct{})}
	t.stage = s
	t.write("stage_begin", map[string]any{"stage": name, "round": round})
	s.alive.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.ended:
				return
			case <-tick.C:
				t.write("progress", map[string]any{"stage": name, "round": round, "done": s.done.Load(),
					"total": s.total.Load(), "bytes": memory.Resident()})
			}
		}
	})
}

// progress notes how much of the stage is done.
func (t *timings) progress(done, total int) {
	if s := t.stage; s != nil {
		s.done.Store(int64(done))
		s.total.Store(int64(total))
	}
}

// finish ends the watch of the stage under way and returns it with the largest resident size; nil of none.
func (t *timings) finish() (s *underway, peak int64) {
	if s = t.stage; s == nil {
		return nil, 0
	}
	t.stage = nil
	close(s.ended)
	s.alive.Wait()
	return s, s.watch.End()
}

// forget ends the watch of a stage that failed.
func (t *timings) forget() { t.finish() }

func (t *timings) end(took time.Duration) {
	s, peak := t.finish()
	if s == nil {
		return
	}
	t.write("stage_end", map[string]any{"stage": s.name, "round": s.round, "seconds": took.Seconds(), "peak_bytes": peak})
}

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

// timed does a stage outside of the trainer's.
func (s *Session) timed(name string, f func() error) error {
	s.tracking.Begin(name, 0)
	err := s.timings.run(name, f)
	if err == nil {
		s.tracking.End()
	}
	return err
}
