package standalone

import (
	"fmt"
	"path/filepath"
	"time"

	"popri/configs"
	"popri/dpo"
	"popri/run/tracking"
	"popri/show/eventlog"
	"popri/show/trackers"
)

// tracked gives the figures of a preference training to trackers. A nil one does nothing.
type tracked struct {
	set    *trackers.Set
	reader trackers.Reader
}

// track begins to track a training whose configuration is c. A training that goes on has its earlier
// figures in its checkpoint.
func track(o Options, c configs.Config) *tracked {
	if len(o.Trackers) == 0 {
		return nil
	}
	t, warn := &tracked{}, o.Warn
	if warn == nil {
		warn = func(string) {}
	}
	checkpoint := filepath.Join(o.Out, trainingFile)
	p, err := tracking.ReadTraining(o.Out, checkpoint)
	if err != nil {
		warn(fmt.Sprintf("trackers: %v; they lack earlier figures", err))
	}
	run := tracking.Describe(o.Out, c)
	written := tracking.Modified(checkpoint)
	run.History = p.Points(&t.reader, 1, func(string, float64) time.Time { return written })
	run.Tags = append(run.Tags, trackers.Pair{Name: "epsilon", Value: "none: this training is not differentially private"})
	t.set = trackers.Open(o.Trackers, run, warn)
	t.set.StageBegin("dpo", 0, time.Now())
	return t
}

// step is a listener to steps that calls the next one as well, which may be nil.
func (t *tracked) step(next func(m dpo.Metrics, done, total int)) func(dpo.Metrics, int, int) {
	if t == nil {
		return next
	}
	return func(m dpo.Metrics, done, total int) {
		t.set.Log(t.reader.Read(trackers.DPOStep, 1, eventlog.Fields(1, m), time.Now()))
		if next != nil {
			next(m, done, total)
		}
	}
}

// eval is the same for measurements.
func (t *tracked) eval(next func(dpo.Evaluation)) func(dpo.Evaluation) {
	if t == nil {
		return next
	}
	return func(e dpo.Evaluation) {
		t.set.Log(t.reader.Read(trackers.DPOEval, 1, eventlog.Fields(1, e), time.Now()))
		if next != nil {
			next(e)
		}
	}
}

func (t *tracked) close(err error) {
	if t != nil {
		if err == nil {
			t.set.StageEnd(time.Now(), nil)
		}
		t.set.Close(trackers.End{Status: tracking.Status(err)})
	}
}
