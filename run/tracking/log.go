package tracking

import (
	"path/filepath"
	"sync/atomic"
	"time"

	"popri/internal/memory"
	"popri/internal/parallel"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/show/eventlog"
	"popri/show/series"
)

// aliveEvery is the time between two events about a stage under way, by which anyone who follows the log sees that the
// process lives. In ten hours they are one megabyte.
const aliveEvery = 5 * time.Second

// Log writes the events of a run into its log, events.jsonl: what the trainer reports, the stages' times and memory,
// and signs of life of the current stage. The report computes the stages' times from them and sums a resumed run's.
type Log struct {
	file  *eventlog.Log
	stage *underway
}

// underway is a stage that has begun.
type underway struct {
	name  string
	round int
	watch *memory.Watch
	// stop ends the reports of progress, so that no event of the stage follows its end.
	stop        func()
	done, total atomic.Int64
}

// OpenLog opens the log of the run in dir to append to it.
func OpenLog(dir string) (*Log, error) {
	f, err := eventlog.Open(filepath.Join(dir, rundir.Events))
	if err != nil {
		return nil, err
	}
	return &Log{file: f}, nil
}

// Close writes the event "close" and closes the file. A nil log is closed.
func (l *Log) Close() {
	if l != nil && l.file != nil {
		l.finish() // of a stage that failed
		l.Write("close", nil)
		l.file.Close()
	}
}

// Write writes an event. The log is secondary to the stages' own files: a line that cannot be written must not end a
// run.
func (l *Log) Write(event string, fields map[string]any) { _ = l.file.Write(event, fields) }

// Events is the listener to the trainer.
func (l *Log) Events() rounds.Events {
	return rounds.Events{
		StageBegin: func(s rounds.Stage) { l.begin(s.Name, s.Round) },
		Progress:   func(_ rounds.Stage, done, total int) { l.Progress(done, total) },
		StageEnd:   func(s rounds.Stage) { l.end(s.Took) },
		Log:        func(event string, round int, v any) { l.Write(event, eventlog.Fields(round, v)) },
		RoundEnd:   func(r series.Round) { l.Write("round_end", eventlog.Fields(r.Number, r)) },
	}
}

// Stage does f and reports it like a stage of the trainer.
func (l *Log) Stage(name string, f func() error) error {
	begun := time.Now()
	l.begin(name, 0)
	if err := f(); err != nil {
		return err
	}
	l.end(time.Since(begun))
	return nil
}

func (l *Log) begin(name string, round int) {
	l.finish() // of a stage that failed
	s := &underway{name: name, round: round, watch: memory.Begin()}
	l.stage = s
	l.Write("stage_begin", map[string]any{"stage": name, "round": round})
	s.stop = parallel.Every(aliveEvery, func() {
		l.Write("progress", map[string]any{"stage": name, "round": round, "done": s.done.Load(),
			"total": s.total.Load(), "bytes": memory.Resident()})
	})
}

// Progress notes how much of the stage is done.
func (l *Log) Progress(done, total int) {
	if s := l.stage; s != nil {
		s.done.Store(int64(done))
		s.total.Store(int64(total))
	}
}

// finish ends the watch of the stage under way and returns it with the largest resident size; nil of none.
func (l *Log) finish() (s *underway, peak int64) {
	if s = l.stage; s == nil {
		return nil, 0
	}
	l.stage = nil
	s.stop()
	return s, s.watch.End()
}

func (l *Log) end(took time.Duration) {
	s, peak := l.finish()
	if s == nil {
		return
	}
	l.Write("stage_end", map[string]any{"stage": s.name, "round": s.round, "seconds": took.Seconds(),
		"peak_bytes": peak})
}
