package trackers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
)

// otel sends a run's stages as a trace of OpenTelemetry, by its own SDK (OTLP over HTTP; the environment variables
// OTEL_… say where). Each process of a run adds a span of its own to the run's trace; below it are its rounds, and below
// these their stages. A span is sent when it has ended; the run never waits. Spans that a server did not take before
// the process ended are lost: the run's files have the times of stages anyway.
type otel struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	watched  *watchedExporter
	drain    time.Duration // how long Close waits

	process context.Context         // of its span
	rounds  map[int]context.Context // of the spans of those that have begun
	stage   trace.Span              // that is under way; nil for none
}

// otelState is otel.json in the run's folder.
type otelState struct {
	TraceID string `json:"trace_id"` // 32 hexadecimal digits
}

func checkOTel(getenv func(string) string) error {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if p := getenv(prefix + "PROTOCOL"); p != "" && p != "http/protobuf" {
			return fmt.Errorf("%sPROTOCOL is %q, and only http/protobuf is spoken here", prefix, p)
		}
		if getenv(prefix+"ENDPOINT") != "" {
			if _, err := serverURL(getenv, prefix+"ENDPOINT", "http://127.0.0.1:4318"); err != nil {
				return err
			}
		}
	}
	return nil
}

// otelTimes are how long spans wait to be sent, how long a request is repeated, and how long Close waits.
type otelTimes struct{ batch, pause, retry, drain time.Duration }

func openOTel(run Run) (Tracker, error) {
	return newOTel(run, otelTimes{batch: time.Second, pause: time.Second, retry: 10 * time.Second, drain: 10 * time.Second})
}

func newOTel(run Run, times otelTimes) (*otel, error) {
	id, err := traceOf(run.Dir)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: times.pause, MaxInterval: time.Minute, MaxElapsedTime: times.retry}))
	if err != nil {
		return nil, err
	}
	version, about := "", []attribute.KeyValue{attribute.String("popri.run", run.Name),
		attribute.Bool("popri.resumed", len(run.History) > 0)}
	for _, p := range run.Tags {
		about = append(about, attribute.String("popri."+p.Name, p.Value))
		if p.Name == "program" {
			version = p.Value
		}
	}
	what, err := resource.New(context.Background(), resource.WithAttributes(attribute.String("service.name", "popri"),
		attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	t := &otel{watched: &watchedExporter{SpanExporter: exporter}, drain: times.drain, rounds: map[int]context.Context{}}
	t.provider = sdk.NewTracerProvider(sdk.WithResource(what), sdk.WithIDGenerator(inTrace(id)), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithBatcher(t.watched, sdk.WithBatchTimeout(times.batch), sdk.WithMaxQueueSize(4096)))
	t.tracer = t.provider.Tracer("popri")
	t.process, _ = t.tracer.Start(context.Background(), "popri", trace.WithAttributes(about...))
	return t, nil
}

// traceOf reads the identifier of the run's trace, or makes one.
func traceOf(dir string) (id trace.TraceID, err error) {
	path := filepath.Join(dir, rundir.OTel)
	var state otelState
	err = atomicfile.ReadJSON(path, &state)
	if errors.Is(err, fs.ErrNotExist) {
		_, _ = rand.Read(id[:]) // never fails
		return id, atomicfile.WriteJSON(path, otelState{id.String()})
	}
	if err != nil {
		return id, err
	}
	raw, err := hex.DecodeString(state.TraceID)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%s: the trace_id is %q, want 32 hexadecimal digits", path, state.TraceID)
	}
	return trace.TraceID(raw), nil
}

// inTrace gives every span of a process the trace of its run.
type inTrace trace.TraceID

// NewIDs implements sdk.IDGenerator.
func (t inTrace) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	return trace.TraceID(t), t.NewSpanID(ctx, trace.TraceID(t))
}

// NewSpanID implements sdk.IDGenerator.
func (inTrace) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// watchedExporter remembers what went wrong, which the SDK would only log.
type watchedExporter struct {
	sdk.SpanExporter
	mu     sync.Mutex
	untold error // the first failure that nobody was told of
}

// ExportSpans implements sdk.SpanExporter.
func (e *watchedExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.untold = cmp.Or(e.untold, fmt.Errorf("%d spans were not sent: %w", len(spans), withoutURL(err)))
	}
	return nil
}

// withoutURL drops a server's address, in which there may be a password, from an error.
func withoutURL(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	before, after, ok := strings.Cut(err.Error(), "failed to send to ")
	if !ok {
		return err
	}
	_, answer, _ := strings.Cut(after, ": ")
	return errors.New(before + "the server answers " + answer)
}

func (e *watchedExporter) tell() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.untold
	e.untold = nil
	return err
}

// StageBegin implements Stages.
func (t *otel) StageBegin(name string, round int, at time.Time) {
	t.endStage(at) // it failed, or nobody told of its end
	parent := t.process
	var number []attribute.KeyValue
	if round > 0 {
		number = append(number, attribute.Int("popri.round", round))
		if _, begun := t.rounds[round]; !begun {
			t.rounds[round], _ = t.tracer.Start(t.process, "round", trace.WithTimestamp(at),
				trace.WithAttributes(number...))
		}
		parent = t.rounds[round]
	}
	_, t.stage = t.tracer.Start(parent, name, trace.WithTimestamp(at), trace.WithAttributes(number...))
}

// endStage ends a stage that has no end of its own.
func (t *otel) endStage(at time.Time) {
	if t.stage != nil {
		t.stage.SetStatus(codes.Error, "the stage did not end")
		t.stage.End(trace.WithTimestamp(at))
		t.stage = nil
	}
}

// StageEnd implements Stages.
func (t *otel) StageEnd(at time.Time, attributes map[string]int64) {
	if t.stage == nil {
		return
	}
	for key, v := range attributes {
		t.stage.SetAttributes(attribute.Int64(key, v))
	}
	t.stage.End(trace.WithTimestamp(at))
	t.stage = nil
}

// Log implements Tracker. The figures of a round end its span, of which they become attributes.
func (t *otel) Log(points []Point) error {
	ended := map[int]time.Time{}
	for _, p := range points {
		key, ofRound := strings.CutPrefix(p.Key, roundPrefix)
		if r, ok := t.rounds[int(p.Step)]; ok && ofRound {
			trace.SpanFromContext(r).SetAttributes(attribute.Float64("popri."+key, p.Value))
			ended[int(p.Step)] = p.Time
		}
	}
	for number, at := range ended {
		trace.SpanFromContext(t.rounds[number]).End(trace.WithTimestamp(at))
		delete(t.rounds, number)
	}
	return t.watched.tell()
}

// Close implements Tracker. It waits for the server some seconds.
func (t *otel) Close(end End) error {
	t.endStage(time.Now())
	for _, number := range slices.Sorted(maps.Keys(t.rounds)) {
		round := trace.SpanFromContext(t.rounds[number])
		round.SetAttributes(attribute.Bool("popri.complete", false))
		round.End()
	}
	clear(t.rounds)
	process := trace.SpanFromContext(t.process)
	process.SetAttributes(attribute.String("popri.status", string(end.Status)))
	if end.Guarantee != "" {
		process.SetAttributes(attribute.String("popri.guarantee", end.Guarantee))
	}
	if end.Status == Failed {
		process.SetStatus(codes.Error, "the run failed")
	}
	process.End()
	ctx, stop := context.WithTimeout(context.Background(), t.drain)
	defer stop()
	return cmp.Or(t.provider.Shutdown(ctx), t.watched.tell())
}
