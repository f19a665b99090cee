// Package tracking reports what a run does while it continues. It writes the run's log, events.jsonl, and gives the
// figures of a run, or of another training in a folder, to trackers: live from its events, and from its files what a
// tracker lacks when a process begins.
package tracking

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"popri/accountant/guarantee"
	"popri/configs"
	"popri/eval/downstream"
	"popri/eval/judge"
	"popri/internal/fault"
	"popri/internal/memory"
	"popri/methods/rounds"
	"popri/run/evaluation"
	"popri/show/eventlog"
	"popri/show/series"
	"popri/show/trackers"
)

// Check returns an error if a name is no tracker, or if the environment does not say where the tracker is.
func Check(names []string) error { return fault.User(trackers.Check(names, os.Getenv)) }

// Listener gives the figures of a run to trackers. A nil one does nothing.
type Listener struct {
	set    *trackers.Set
	reader trackers.Reader
	dir    string       // of the run, "" of anything else
	rounds int          // complete ones
	done   atomic.Int64 // of the stage under way
	ended  error
}

// Open begins to track the run in dir. warn gets at most one sentence for each tracker. Without names there is nothing
// to track, and the listener is nil.
func Open(names []string, dir string, c configs.Config, warn func(string)) *Listener {
	return open(names, dir, c, warn, func(t *Listener, run *trackers.Run) error {
		t.dir = dir
		history, err := t.history()
		run.History = history
		run.Tags = append(run.Tags, trackers.Pair{Name: "method", Value: c.Method}, trackers.Pair{Name: "epsilon",
			Value: fmt.Sprint(c.Privacy.Epsilon)}, trackers.Pair{Name: "delta", Value: fmt.Sprint(c.Privacy.Delta)})
		return err
	})
}

// OpenTexts begins to track the evaluation of any texts: one measurement, without a history.
func OpenTexts(names []string, dir string, c configs.Config, warn func(string)) *Listener {
	return open(names, dir, c, warn, func(_ *Listener, run *trackers.Run) error {
		run.Tags = append(run.Tags, trackers.Pair{Name: "epsilon", Value: "unknown: these texts came from elsewhere"})
		return nil
	})
}

// OpenTraining begins to track a training on preference pairs in dir that no run does. One that continues has its earlier
// figures in its checkpoint.
func OpenTraining(names []string, dir, checkpoint string, c configs.Config, warn func(string)) *Listener {
	return open(names, dir, c, warn, func(t *Listener, run *trackers.Run) error {
		run.Tags = append(run.Tags, trackers.Pair{Name: "epsilon",
			Value: "none: this training is not differentially private"})
		p, err := readTraining(dir, checkpoint)
		written := modified(checkpoint)
		run.History = p.points(&t.reader, 1, func(string, float64) time.Time { return written })
		return err
	})
}

func open(names []string, dir string, c configs.Config, warn func(string),
	add func(*Listener, *trackers.Run) error) *Listener {
	if len(names) == 0 {
		return nil
	}
	if warn == nil {
		warn = func(string) {}
	}
	t, run := &Listener{}, describe(dir, c)
	if err := add(t, &run); err != nil {
		warn(fmt.Sprintf("trackers: %v; they lack earlier figures", err))
	}
	t.set = trackers.Open(names, run, warn)
	return t
}

// Events is the listener to the trainer.
func (t *Listener) Events() rounds.Events {
	if t == nil {
		return rounds.Events{}
	}
	return rounds.Events{
		StageBegin: func(s rounds.Stage) { t.Begin(s.Name, s.Round) },
		StageEnd:   func(rounds.Stage) { t.End() },
		Progress:   func(_ rounds.Stage, done, total int) { t.done.Store(int64(done)) },
		Log:        t.Log,
		RoundEnd: func(r series.Round) {
			t.rounds = r.Number
			now := time.Now()
			// An engine elsewhere may report no step before all are done.
			if points, err := t.training(r.Number, func(string, float64) time.Time { return now }); err == nil {
				t.set.Log(points)
			}
			t.set.Log(t.reader.Read(trackers.RoundEnd, r.Number, eventlog.Fields(r.Number, r), now))
		},
	}
}

// Log gives the figures of an event to the trackers.
func (t *Listener) Log(event string, round int, v any) {
	if t != nil {
		t.set.Log(t.reader.Read(event, round, eventlog.Fields(round, v), time.Now()))
	}
}

// Begin reports to the trackers that a stage begins.
func (t *Listener) Begin(name string, round int) {
	if t != nil {
		t.done.Store(0)
		t.set.StageBegin(name, round, time.Now())
	}
}

// End reports to the trackers that the stage under way has ended.
func (t *Listener) End() {
	if t == nil {
		return
	}
	attributes := map[string]int64{"popri.resident_bytes": memory.Resident()}
	if done := t.done.Load(); done > 0 {
		attributes["popri.items"] = done
	}
	t.EndWith(attributes)
}

// EndWith is End with attributes of the caller's alone.
func (t *Listener) EndWith(attributes map[string]int64) {
	if t != nil {
		t.set.StageEnd(time.Now(), attributes)
	}
}

// Evaluated adds what small models reach on the test clients. The model that was trained on the clients' own text is
// left out: it is outside of ε, and a tracker may have more readers than the run's folder.
func (t *Listener) Evaluated(e *evaluation.Outcome) {
	if t == nil || e == nil {
		return
	}
	t.set.Log(t.accuracies(e, time.Now()))
}

func (t *Listener) accuracies(e *evaluation.Outcome, at time.Time) (points []trackers.Point) {
	for _, r := range e.Results {
		if r.Key != downstream.Private {
			figures := map[string]float64{"accuracy": r.Accuracy, "perplexity": r.Perplexity}
			if r.MacroF1 != nil {
				figures = map[string]float64{"accuracy": r.Accuracy, "macro_f1": *r.MacroF1}
			}
			for name, v := range figures {
				points = append(points, trackers.Point{Key: "downstream/" + name + "/" + r.Key, Step: int64(t.rounds),
					Time: at, Value: v})
			}
		}
	}
	return points
}

// Judged adds how like the clients' texts the synthetic set, other clients' texts and public text are:
// judge/mauve/product. What popri judge found about the train clients is left out, for its page is for the owner of the
// data alone.
func (t *Listener) Judged(r *judge.Result) {
	if t == nil || r == nil {
		return
	}
	var points []trackers.Point
	now := time.Now()
	for _, l := range r.Likeness {
		name := strings.ReplaceAll(l.Name, " ", "_")
		for key, v := range map[string]float64{"mauve": l.Mauve, "precision": l.Precision, "recall": l.Recall,
			"frechet": l.Frechet} {
			points = append(points, trackers.Point{Key: "judge/" + key + "/" + name, Step: int64(t.rounds), Time: now,
				Value: v})
		}
	}
	t.set.Log(points)
}

// Fail notes the error that ended the run, if it is one and the first, and returns it.
func (t *Listener) Fail(err error) error {
	if t != nil && t.ended == nil {
		t.ended = err
	}
	return err
}

// Close says how the run ended, and what it guarantees.
func (t *Listener) Close() {
	if t == nil {
		return
	}
	end := trackers.End{Status: status(t.ended)}
	if t.dir != "" {
		if facts, err := guarantee.Read(t.dir); err == nil {
			end.Guarantee = facts.Headline()
		}
	}
	t.set.Close(end)
}

// status is the status of a process that ended with err.
func status(err error) trackers.Status {
	switch {
	case err == nil:
		return trackers.Finished
	case fault.IsResumable(err):
		return trackers.Killed
	}
	return trackers.Failed
}

// describe is what a configuration says about the run in dir.
func describe(dir string, c configs.Config) trackers.Run {
	name := filepath.Base(dir)
	if absolute, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(absolute)
	}
	run := trackers.Run{Dir: dir, Name: name, YAML: c.YAML(), Getenv: os.Getenv}
	for _, k := range configs.Keys() {
		v, _ := c.Get(k.Name)
		run.Params = append(run.Params, trackers.Pair{Name: k.Name, Value: fmt.Sprint(v)})
	}
	for _, name := range []string{"program", "libtorch", "compute", "device", "clients", "noise_multiplier"} {
		if v := c.Provenance[name]; v != "" {
			run.Tags = append(run.Tags, trackers.Pair{Name: name, Value: v})
		}
	}
	return run
}
