package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"popri/configs"
	"popri/downstream"
	"popri/eventlog"
	"popri/guarantee"
	"popri/internal/fault"
	"popri/internal/memory"
	"popri/internal/rows"
	"popri/methods/policy"
	"popri/preference"
	"popri/run/evaluation"
	"popri/rundir"
	"popri/safetensors"
	"popri/series"
	"popri/trackers"
	"popri/trainer"
)

// CheckTrackers returns an error if a name is no tracker, or if the environment does not say where the tracker is.
func CheckTrackers(names []string) error { return fault.User(trackers.Check(names, os.Getenv)) }

// tracking gives the figures of a run to trackers: live from its events, and from its files what they do not tell. A nil
// one does nothing.
type tracking struct {
	set    *trackers.Set
	reader trackers.Reader
	dir    string
	rounds int          // complete ones
	done   atomic.Int64 // of the stage under way
	ended  error
}

// openTracking begins to track the run in dir. warn gets at most one sentence for each tracker.
func openTracking(names []string, dir string, c configs.Config, warn func(string)) *tracking {
	if len(names) == 0 {
		return nil
	}
	if warn == nil {
		warn = func(string) {}
	}
	t := &tracking{dir: dir}
	history, err := t.history()
	if err != nil {
		warn(fmt.Sprintf("trackers: %v; they lack earlier figures", err))
	}
	run := described(dir, c)
	run.History = history
	run.Tags = append(run.Tags, trackers.Pair{Name: "method", Value: c.Method},
		trackers.Pair{Name: "epsilon", Value: fmt.Sprint(c.Privacy.Epsilon)},
		trackers.Pair{Name: "delta", Value: fmt.Sprint(c.Privacy.Delta)})
	t.set = trackers.Open(names, run, warn)
	return t
}

// described is what a configuration says about a run.
func described(dir string, c configs.Config) trackers.Run {
	run := trackers.Run{Dir: dir, Name: filepath.Base(absolute(dir)), YAML: c.YAML(), Getenv: os.Getenv}
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

// events is the listener.
func (t *tracking) events() trainer.Events {
	if t == nil {
		return trainer.Events{}
	}
	return trainer.Events{
		StageBegin: func(s trainer.Stage) { t.begin(s.Name, s.Round) },
		StageEnd:   func(trainer.Stage) { t.end() },
		Progress:   func(_ trainer.Stage, done, total int) { t.done.Store(int64(done)) },
		Log: func(event string, round int, v any) {
			t.set.Log(t.reader.Read(event, round, eventlog.Fields(round, v), time.Now()))
		},
		RoundEnd: func(r series.Round) {
			t.rounds = r.Number
			now := time.Now()
			// An engine elsewhere may tell of no step before all are done.
			if points, err := t.training(r.Number, func(string, float64) time.Time { return now }); err == nil {
				t.set.Log(points)
			}
			t.set.Log(t.reader.Read(trackers.RoundEnd, r.Number, eventlog.Fields(r.Number, r), now))
		},
	}
}

// begin tells the trackers of a stage, and end of its end.
func (t *tracking) begin(name string, round int) {
	if t != nil {
		t.done.Store(0)
		t.set.StageBegin(name, round, time.Now())
	}
}

func (t *tracking) end() {
	if t == nil {
		return
	}
	attributes := map[string]any{"popri.resident_bytes": memory.Resident()}
	if done := t.done.Load(); done > 0 {
		attributes["popri.items"] = done
	}
	t.set.StageEnd(time.Now(), attributes)
}

// timed does a stage outside of the trainer's.
func (s *Session) timed(name string, f func() error) error {
	s.tracking.begin(name, 0)
	err := s.timings.run(name, f)
	if err == nil {
		s.tracking.end()
	}
	return err
}

// evaluated adds what small models reach on the test clients. The model that was trained on the clients' own text is left
// out: it is outside of ε, and a tracker may have more readers than the run's folder.
func (t *tracking) evaluated(e *evaluation.Outcome) {
	if t == nil || e == nil {
		return
	}
	t.set.Log(t.accuracies(e, time.Now()))
}

func (t *tracking) accuracies(e *evaluation.Outcome, at time.Time) (points []trackers.Point) {
	for _, r := range e.Results {
		if r.Key != downstream.Private {
			figures := map[string]float64{"accuracy": r.Accuracy, "perplexity": r.Perplexity}
			if r.MacroF1 != nil {
				figures = map[string]float64{"accuracy": r.Accuracy, "macro_f1": *r.MacroF1}
			}
			for name, v := range figures {
				points = append(points, trackers.Point{Key: "downstream/" + name + "/" + r.Key, Step: int64(t.rounds), Time: at, Value: v})
			}
		}
	}
	return points
}

// fail notes how the run ended.
func (t *tracking) fail(err error) error {
	if t != nil && t.ended == nil {
		t.ended = err
	}
	return err
}

// closeTracking says how the run ended, and what it guarantees.
func (s *Session) closeTracking() {
	t := s.tracking
	if t == nil {
		return
	}
	s.tracking = nil
	var end trackers.End
	if facts, err := guarantee.Read(s.Dir); err == nil {
		end.Guarantee = facts.Headline()
	}
	end.Status = statusOf(t.ended)
	t.set.Close(end)
}

// statusOf is the status of a process that ended with err.
func statusOf(err error) trackers.Status {
	switch {
	case err == nil:
		return trackers.Finished
	case fault.IsResumable(err):
		return trackers.Killed
	}
	return trackers.Failed
}

// history reads the figures of a run's files, in the order in which the run made them, and leaves the reader behind them.
// The rounds' own files say what there is. The event log, which a killed process may have left without a last line, says
// when it was.
func (t *tracking) history() (points []trackers.Point, err error) {
	type key struct {
		event string
		round int
		step  float64
	}
	times := map[key]time.Time{}
	for e, err := range eventlog.Read(filepath.Join(t.dir, rundir.Events)) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		times[key{e.Name, int(e.Number("round")), e.Number("step")}] = e.Time
	}
	rounds, err := trainer.ReadMetrics(t.dir)
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
			points = append(points, t.reader.Read(trackers.RoundEnd, n, eventlog.Fields(n, rounds[n-1]), at(trackers.RoundEnd, 0))...)
		}
	}
	e, err := evaluation.Read(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return points, nil
	}
	if err != nil {
		return points, err
	}
	return append(points, t.accuracies(e, modified(filepath.Join(t.dir, rundir.Eval)))...), nil
}

// training reads the updates and measurements of a round. They are those of the checkpoint while the training is under
// way.
func (t *tracking) training(round int, at func(event string, step float64) time.Time) ([]trackers.Point, error) {
	dir := rundir.Round(t.dir, round)
	p, err := readTrained(dir, filepath.Join(dir, policy.TrainingFile))
	return p.points(&t.reader, round, at), err
}

// trained is what a training did so far; a checkpoint holds it as JSON.
type trained struct {
	Steps []map[string]any `json:"steps"`
	Evals []map[string]any `json:"evals"`
}

func (p trained) points(r *trackers.Reader, round int, at func(event string, step float64) time.Time) (points []trackers.Point) {
	for _, s := range p.Steps {
		event := trackers.DPOStep
		if _, ok := s["rewards/margins"]; !ok {
			event = trackers.GRPOStep
		}
		step, _ := s["step"].(float64)
		points = append(points, r.Read(event, round, s, at(event, step))...)
	}
	for _, e := range p.Evals {
		step, _ := e["step"].(float64)
		points = append(points, r.Read(trackers.DPOEval, round, e, at(trackers.DPOEval, step))...)
	}
	return points
}

// readTrained reads the lines of a finished training in dir, or the checkpoint of one that is not. Without either there is
// nothing.
func readTrained(dir, checkpoint string) (p trained, err error) {
	if p.Steps, err = rows.ReadLines[map[string]any](filepath.Join(dir, preference.StepsFile)); err == nil {
		if p.Evals, err = rows.ReadLines[map[string]any](filepath.Join(dir, preference.EvalsFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return p, err
	}
	if !errors.Is(err, fs.ErrNotExist) || !exists(checkpoint) {
		return p, ignoreMissing(err)
	}
	file, err := safetensors.Open(checkpoint)
	if err != nil {
		return p, err
	}
	defer file.Close()
	if err := json.Unmarshal([]byte(file.Metadata()["progress"]), &p); err != nil {
		return p, fmt.Errorf("%s: progress: %w", checkpoint, err)
	}
	return p, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// modified is when a file was written; the present if nobody knows.
func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}
