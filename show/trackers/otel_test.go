package trackers

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"popri/internal/rundir"
	"popri/testkit/testfile"
)

// sentSpan is a span as a collector reads it.
type sentSpan struct {
	trace, id, parent, name string
	begun, ended            time.Time
	attributes              map[string]any
	code                    uint64
	text                    string
}

// collector is a server that takes traces.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	spans    map[string]sentSpan // by id
	resource map[string]any
	header   http.Header
	calls    int
	twice    bool
	fault    func(w http.ResponseWriter, call int) bool // answers in place of the server
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: map[string]sentSpan{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.header = r.Header
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	b, err := io.ReadAll(body)
	if err != nil || r.URL.Path != "/v1/traces" || r.Method != "POST" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" {
		w.WriteHeader(400)
		return
	}
	if c.fault != nil && c.fault(w, c.calls) {
		return
	}
	for _, resourceSpans := range sub(b, 1) {
		for _, resource := range sub(resourceSpans, 1) {
			c.resource = attributesOf(resource, 1)
		}
		for _, scope := range sub(resourceSpans, 2) {
			for _, one := range sub(scope, 2) {
				s := decodeSpan(one)
				_, known := c.spans[s.id]
				c.twice = c.twice || known
				c.spans[s.id] = s
			}
		}
	}
}

// sub are the messages or texts in a field.
func sub(b []byte, field int) (list [][]byte) {
	for f, v := range messageFields(b) {
		if f == field {
			list = append(list, v.bytes)
		}
	}
	return list
}

func attributesOf(b []byte, field int) map[string]any {
	out := map[string]any{}
	for _, kv := range sub(b, field) {
		key := string(sub(kv, 1)[0])
		for f, v := range messageFields(sub(kv, 2)[0]) {
			out[key] = map[int]any{1: string(v.bytes), 2: v.number == 1, 3: int64(v.number),
				4: math.Float64frombits(v.number)}[f]
		}
	}
	return out
}

func decodeSpan(b []byte) (s sentSpan) {
	for f, v := range messageFields(b) {
		switch f {
		case 1:
			s.trace = hex.EncodeToString(v.bytes)
		case 2:
			s.id = hex.EncodeToString(v.bytes)
		case 4:
			s.parent = hex.EncodeToString(v.bytes)
		case 5:
			s.name = string(v.bytes)
		case 7:
			s.begun = time.Unix(0, int64(v.number))
		case 8:
			s.ended = time.Unix(0, int64(v.number))
		case 15:
			for f, v := range messageFields(v.bytes) {
				if f == 3 {
					s.code = v.number
				} else {
					s.text = string(v.bytes)
				}
			}
		}
	}
	s.attributes = attributesOf(b, 9)
	return s
}

// named are the spans of a name.
func (c *collector) named(name string) (list []sentSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == name {
			list = append(list, s)
		}
	}
	return list
}

func (c *collector) one(t *testing.T, name string) sentSpan {
	t.Helper()
	list := c.named(name)
	if len(list) != 1 {
		t.Fatalf("%d spans are named %q, want 1", len(list), name)
	}
	return list[0]
}

// The codes of a span's status.
const statusUnset, statusError = 0, 2

// hastyOTel are times under which a server that fails is soon tried again, or left.
var hastyOTel = otelTimes{batch: time.Millisecond, pause: time.Millisecond, retry: 50 * time.Millisecond,
	drain: 10 * time.Second}

// patientOTel waits for what a test sends, however busy the machine is.
var patientOTel = otelTimes{batch: time.Hour, pause: time.Millisecond, retry: time.Minute, drain: time.Minute}

func traced(t *testing.T, c *collector, dir string, times otelTimes, more ...string) *otel {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	for i := 0; i < len(more); i += 2 {
		t.Setenv(more[i], more[i+1])
	}
	o, err := newOTel(Run{Dir: dir, Name: "a run", Tags: []Pair{{"epsilon", "7"}, {"program", "v1"}}}, times)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// round does a made-up round of two stages.
func (o *otel) round(number int, begin time.Time) {
	second := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	o.StageBegin("generate", number, second(0))
	o.StageEnd(second(2), map[string]int64{"popri.items": 40, "popri.resident_bytes": 1 << 33})
	o.StageBegin("dpo", number, second(3))
	o.StageEnd(second(5), nil)
	_ = o.Log([]Point{{"loss", 7, second(5), 0.3}, {"round/loss", int64(number), second(6), 0.5},
		{"round/fid", int64(number), second(6), 0.25}})
}

func TestOTelTrace(t *testing.T) {
	c, dir := newCollector(t), t.TempDir()
	o := traced(t, c, dir, patientOTel, "OTEL_RESOURCE_ATTRIBUTES", "team=a%20b,service.name=other", "OTEL_SERVICE_NAME",
		"mine", "OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%3Dt", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	begin := time.Now().Truncate(time.Second)
	o.StageBegin("open", 0, begin)
	o.StageEnd(begin.Add(time.Second), nil)
	o.round(1, begin.Add(10*time.Second))
	o.StageBegin("generate", 2, begin.Add(20*time.Second)) // never ends
	if err := o.Close(End{Killed, "protects all"}); err != nil {
		t.Fatal(err)
	}
	process, open, dpo := c.one(t, "popri"), c.one(t, "open"), c.one(t, "dpo")
	if process.parent != "" || open.parent != process.id || process.code != statusUnset ||
		process.attributes["popri.epsilon"] != "7" ||
		process.attributes["popri.guarantee"] != "protects all" || process.attributes["popri.status"] != "KILLED" ||
		process.attributes["popri.resumed"] != false {
		t.Errorf("%+v", process)
	}
	for _, r := range c.named("round") {
		if r.parent != process.id {
			t.Errorf("%+v", r)
		}
		if r.attributes["popri.round"] == int64(1) {
			want := map[string]any{"popri.round": int64(1), "popri.loss": 0.5, "popri.fid": 0.25}
			if !maps.Equal(r.attributes, want) || !r.begun.Equal(begin.Add(10*time.Second)) ||
				!r.ended.Equal(begin.Add(16*time.Second)) || dpo.parent != r.id ||
				!dpo.begun.Equal(begin.Add(13*time.Second)) || !dpo.ended.Equal(begin.Add(15*time.Second)) {
				t.Errorf("%+v, with %+v", r, dpo)
			}
		} else if r.attributes["popri.complete"] != false {
			t.Errorf("%+v", r)
		}
	}
	for _, s := range c.named("generate") {
		if s.attributes["popri.round"] == int64(1) &&
			(s.attributes["popri.items"] != int64(40) || s.attributes["popri.resident_bytes"] != int64(1<<33)) {
			t.Errorf("%+v", s)
		}
		if s.attributes["popri.round"] == int64(2) && s.code != statusError {
			t.Errorf("a stage without an end: %+v", s)
		}
	}
	if len(c.named("round")) != 2 || len(c.named("generate")) != 2 || c.twice {
		t.Errorf("%d rounds, twice %v", len(c.named("round")), c.twice)
	}
	if want := map[string]any{"team": "a b", "service.name": "mine", "service.version": "v1"}; !maps.Equal(c.resource,
		want) || c.header.Get("api-key") != "s=t" {
		t.Errorf("resource %v, header %v", c.resource, c.header)
	}

	// The next process adds to the same trace.
	o = traced(t, c, dir, patientOTel)
	o.round(2, begin.Add(30*time.Second))
	if err := o.Close(End{Status: Failed}); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, s := range c.spans {
		if s.trace != process.trace || len(s.trace) != 32 || len(s.id) != 16 {
			t.Errorf("%+v is not in the trace %s", s, process.trace)
		}
		if s.name == "popri" && s.code == statusError {
			failed++
		}
	}
	if len(c.named("popri")) != 2 || failed != 1 {
		t.Errorf("%d processes, %d failed", len(c.named("popri")), failed)
	}
}

// What fails a few times arrives once; what is refused is not sent again; a server that is not there costs one error.
func TestOTelFailures(t *testing.T) {
	begin := time.Now()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"503": func(w http.ResponseWriter) { w.WriteHeader(503) },
		"429": func(w http.ResponseWriter) { w.WriteHeader(429) },
	} {
		c := newCollector(t)
		c.fault = func(w http.ResponseWriter, call int) bool {
			if call <= 2 {
				answer(w)
			}
			return call <= 2
		}
		o := traced(t, c, t.TempDir(), patientOTel)
		for n := 1; n <= 3; n++ {
			o.round(n, begin)
		}
		_ = o.Close(End{Status: Finished}) // reports the failures
		if len(c.spans) != 10 || c.twice {
			t.Errorf("%s: %d spans, want 3 rounds of 3 and the process; twice: %v", name, len(c.spans), c.twice)
		}
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"401": func(w http.ResponseWriter) { w.WriteHeader(401) },
		"partial": func(w http.ResponseWriter) {
			var partial, all message
			partial.int(1, 2)
			partial.text(2, "too old")
			all.message(1, partial)
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(all)
		},
	} {
		c := newCollector(t)
		c.fault = func(w http.ResponseWriter, _ int) bool { answer(w); return true }
		o := traced(t, c, t.TempDir(), patientOTel)
		o.round(1, begin)
		err := o.Close(End{Status: Finished})
		if want := map[string]string{"401": "answers 401", "partial": "too old"}[name]; err == nil ||
			!strings.Contains(err.Error(), want) || c.calls != 1 {
			t.Errorf("%s: %v after %d calls", name, err, c.calls)
		}
	}
	c := newCollector(t)
	c.Close()
	var said []string
	s := &Set{last: map[string]int64{}, warn: func(text string) { said = append(said, text) },
		list: []*member{{Tracker: traced(t, c, t.TempDir(), hastyOTel), name: "otel"}}}
	for n := 1; n <= 200; n++ { // more than fit into the queue
		s.StageBegin("generate", n, begin)
		s.StageEnd(begin, nil)
		s.Log([]Point{{"round/loss", int64(n), begin, 1}})
	}
	s.Close(End{Status: Finished})
	if len(said) != 1 || !strings.HasSuffix(said[0], "; the run continues without") {
		t.Errorf("said %q", said)
	}
}

func TestOTelEnvironment(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://user:secret@host:4318/path", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=grpc://user:secret@host", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://user:secret@ho st", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "only http/protobuf"},
	} {
		name, value, _ := strings.Cut(c.env, "=")
		err := Check([]string{"otel"}, func(n string) string {
			if n == name {
				return value
			}
			return ""
		})
		if (err == nil) != (c.want == "") ||
			err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", c.env, err, c.want)
		}
	}
}

func TestOTelState(t *testing.T) {
	dir := t.TempDir()
	first, err := traceOf(dir)
	again, err2 := traceOf(dir)
	if err != nil || err2 != nil || first != again || !first.IsValid() {
		t.Errorf("%x, %x (%v, %v)", first, again, err, err2)
	}
	for _, text := range []string{"", "{}", `{"trace_id": "12"}`, `{"trace_id": "zz"}`} {
		testfile.Write(t, filepath.Join(dir, rundir.OTel), text)
		if _, err := traceOf(dir); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
