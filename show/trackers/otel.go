package trackers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
)

// otel sends a run's stages as a trace of OpenTelemetry, in OTLP over HTTP. Each process of a run adds a span of its
// own to the run's trace; below it are its rounds, and below these their stages. A span is sent when it has ended.
//
// A goroutine sends, so that the run never waits. Spans that a server did not take before the process ended are lost:
// the run's files have the times of stages anyway.
//
// OpenTelemetry's own SDK does the same with 20 modules, of which gRPC is one, and 12 MB of program; spans are all that
// is needed of it here, and protobuf.go writes them.
type otel struct {
	run    Run
	server *otlpServer
	trace  [16]byte

	sending
	process  span
	rounds   map[int]*span // that have begun
	stage    *span         // that is under way
	queue    []message     // spans that have ended
	ended    bool
	answered bool // the server took spans
}

// span is a part of the run that has begun.
type span struct {
	id, parent [8]byte
	name       string
	begun      time.Time
	attributes map[string]any // string, int64, float64 or bool
}

// otelState is otel.json in the run's folder.
type otelState struct {
	TraceID string `json:"trace_id"` // 32 hexadecimal digits
}

// Spans are few: a run of a hundred rounds has a thousand.
var otelLimits = limits{pause: time.Second, longest: time.Minute, drain: 10 * time.Second, lastChance: 2 * time.Second,
	queue: 4096, batch: 512}

func openOTel(run Run) (Tracker, error) { return newOTel(run, otelLimits) }

func newOTel(run Run, l limits) (*otel, error) {
	server, err := newOTLPServer(run.Getenv)
	if err != nil {
		return nil, err
	}
	t := &otel{run: run, server: server, rounds: map[int]*span{}}
	if t.trace, err = traceOf(run.Dir); err != nil {
		return nil, err
	}
	t.process = newSpan("popri", [8]byte{}, time.Now())
	t.process.attributes["popri.run"] = run.Name
	for _, p := range run.Tags {
		t.process.attributes["popri."+p.Name] = p.Value
	}
	t.process.attributes["popri.resumed"] = len(run.History) > 0
	t.begin(l, t.send)
	return t, nil
}

// traceOf reads the identifier of the run's trace, or makes one.
func traceOf(dir string) (id [16]byte, err error) {
	path := filepath.Join(dir, rundir.OTel)
	var state otelState
	err = atomicfile.ReadJSON(path, &state)
	if errors.Is(err, fs.ErrNotExist) {
		_, _ = rand.Read(id[:]) // never fails
		return id, atomicfile.WriteJSON(path, otelState{fmt.Sprintf("%x", id)})
	}
	if err != nil {
		return id, err
	}
	raw, err := hex.DecodeString(state.TraceID)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%s: the trace_id is %q, want 32 hexadecimal digits", path, state.TraceID)
	}
	return [16]byte(raw), nil
}

func newSpan(name string, parent [8]byte, at time.Time) span {
	s := span{parent: parent, name: name, begun: at, attributes: map[string]any{}}
	_, _ = rand.Read(s.id[:]) // never fails
	return s
}

// StageBegin implements Stages.
func (t *otel) StageBegin(name string, round int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage != nil { // it failed, or nobody told of its end
		t.finish(*t.stage, at, statusError, "the stage did not end")
	}
	parent := t.process.id
	if round > 0 {
		if t.rounds[round] == nil {
			r := newSpan("round", t.process.id, at)
			r.attributes["popri.round"] = int64(round)
			t.rounds[round] = &r
		}
		parent = t.rounds[round].id
	}
	s := newSpan(name, parent, at)
	if round > 0 {
		s.attributes["popri.round"] = int64(round)
	}
	t.stage = &s
}

// StageEnd implements Stages.
func (t *otel) StageEnd(at time.Time, attributes map[string]any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == nil {
		return
	}
	maps.Copy(t.stage.attributes, attributes)
	t.finish(*t.stage, at, statusUnset, "")
	t.stage = nil
}

// Log implements Tracker. The figures of a round end its span, of which they become attributes.
func (t *otel) Log(points []Point) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range points {
		key, ok := strings.CutPrefix(p.Key, RoundPrefix)
		if r := t.rounds[int(p.Step)]; ok && r != nil {
			r.attributes["popri."+key] = p.Value
		}
	}
	for _, p := range points {
		if r := t.rounds[int(p.Step)]; strings.HasPrefix(p.Key, RoundPrefix) && r != nil {
			delete(t.rounds, int(p.Step))
			t.finish(*r, p.Time, statusUnset, "")
		}
	}
	return t.tell()
}

// finish queues a span. The caller holds the lock.
func (t *otel) finish(s span, at time.Time, code int64, text string) {
	if t.refused {
		return
	}
	if len(t.queue) >= t.limits.queue {
		t.lost++
		return
	}
	t.queue = append(t.queue, s.encode(t.trace, at, code, text))
	t.poke()
}

// Close implements Tracker. It waits for the server a few seconds.
func (t *otel) Close(end End) error {
	code, text := int64(statusUnset), ""
	switch end.Status {
	case Failed:
		code, text = statusError, "the run failed"
	case Killed:
		text = "interrupted"
	}
	now := time.Now()
	t.mu.Lock()
	if t.stage != nil {
		t.finish(*t.stage, now, statusError, "the stage did not end")
	}
	for _, number := range slices.Sorted(maps.Keys(t.rounds)) {
		r := t.rounds[number]
		r.attributes["popri.complete"] = false
		t.finish(*r, now, code, text)
	}
	t.process.attributes["popri.status"] = string(end.Status)
	if end.Guarantee != "" {
		t.process.attributes["popri.guarantee"] = end.Guarantee
	}
	t.finish(t.process, now, code, text)
	t.stage, t.rounds, t.ended = nil, map[int]*span{}, true
	wait := t.limits.lastChance
	if t.answered {
		wait = t.limits.drain
	}
	t.mu.Unlock()
	t.join(wait) // it is woken also where the last spans were refused
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.tell()
	if err == nil && (len(t.queue) > 0 || t.lost > 0) && !t.refused {
		err = fmt.Errorf("%d spans were not sent", len(t.queue)+t.lost)
	}
	return err
}

// send sends what is in the queue until the end.
func (t *otel) send(ctx context.Context) {
	pause := t.limits.pause
	for {
		t.mu.Lock()
		batch, ended := t.queue[:min(len(t.queue), t.limits.batch)], t.ended
		t.mu.Unlock()
		if len(batch) == 0 {
			if ended {
				return
			}
			select {
			case <-t.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := t.server.export(ctx, t.resource(), batch)
		refusal := new(refusedSpans)
		t.mu.Lock()
		switch {
		case err == nil:
			t.queue, t.answered, pause = t.queue[len(batch):], true, t.limits.pause
		case errors.As(err, &refusal):
			t.untold, t.queue, t.refused = err, nil, true
		case t.untold == nil && ctx.Err() == nil:
			t.untold = err
		}
		t.mu.Unlock()
		if err == nil || t.isRefused() {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, t.limits.longest)
	}
}

func (t *otel) isRefused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}
