package watch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/show/eventlog"
	"popri/show/series"
	"popri/testkit/testfile"
)

var about = About{Title: "A run", Rounds: 3, Series: series.Set{
	Columns: []series.Series{{Key: "loss", Name: "Loss", Format: series.Number, Decimals: 3}},
	Plots:   []series.Plot{{Title: "Loss by round", Lines: []series.Line{{Key: "loss", Name: "loss"}}}}}}

// run is a folder of a run whose log the test writes.
type run struct {
	t   *testing.T
	dir string
	log *eventlog.Log
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{t: t, dir: t.TempDir()}
	r.file(rundir.Config, "seed: 1\n")
	r.open()
	return r
}

func (r *run) open() {
	r.t.Helper()
	var err error
	if r.log, err = eventlog.Open(filepath.Join(r.dir, rundir.Events)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.log.Close() })
	r.event("open", nil)
}

func (r *run) file(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) event(name string, fields map[string]any) {
	r.t.Helper()
	if err := r.log.Write(name, fields); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) watch(token string) *Watcher {
	return New(Options{Dir: r.dir, Token: token, Describe: func(string) (About, error) { return about, nil }})
}

// lookAt looks at the folder and decodes a section of the page.
func lookAt[T any](t *testing.T, w *Watcher, name string, now time.Time) (v T) {
	t.Helper()
	w.look(now)
	if w.problem != "" {
		t.Fatal(w.problem)
	}
	if err := json.Unmarshal(w.sections[name].data, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// A run begins, is killed in the middle of a round, is resumed, is stopped, and ends.
func TestStatusOfARun(t *testing.T) {
	r := &run{t: t, dir: t.TempDir()}
	w := r.watch("secret")
	now := time.Now()
	expect := func(status string, canStop bool) {
		t.Helper()
		if h := lookAt[head](t, w, secHead, now); h.Status != status || h.CanStop != canStop {
			t.Errorf("%+v, want %s, can stop: %v", h, status, canStop)
		}
	}
	expect(waiting, false)
	if h := lookAt[head](t, w, secHead, now); !strings.Contains(h.Note, "No figure is there yet") || h.Report {
		t.Errorf("before the run: %+v", h)
	}
	r.file(rundir.Config, "seed: 1\n")
	r.open()
	expect(running, true)
	r.event("stage_begin", map[string]any{"stage": "generate", "round": 1})
	r.event("progress", map[string]any{"stage": "generate", "round": 1, "done": 5, "total": 20, "bytes": 1 << 30})
	if s := lookAt[stage](t, w, secStage, now); s.Name != "generate" || s.Round != 1 || s.Done != 5 || s.Total != 20 {
		t.Errorf("%+v", s)
	}
	now = now.Add(time.Hour)
	expect(silent, false)
	now = time.Now()
	r.log.Close()
	r.open()
	if s := lookAt[stage](t, w, secStage, now); s.Name != "" {
		t.Errorf("the resumed run is in the stage of the killed one: %+v", s)
	}
	r.event("stage_end", map[string]any{"stage": "generate", "round": 1, "seconds": 2.5, "peak_bytes": 2 << 30})
	r.event("round_end", map[string]any{"round": 1, "loss": 0.7})
	if table := lookAt[table](t, w, secTable, now); len(table.Rows) != 1 || table.Rows[0][1] != "0.700" {
		t.Errorf("%+v", table)
	}
	if figures := lookAt[htmlSection](t, w, secCharts, now); !strings.Contains(figures.HTML, "Loss by round") {
		t.Errorf("%+v", figures)
	}
	r.event("stopped", map[string]any{"round": 1})
	r.event("close", nil)
	expect(stopped, false)
	r.open()
	r.event("close", nil)
	expect(ended, false)
	r.open()
	for round := 2; round <= 3; round++ {
		r.event("round_end", map[string]any{"round": round, "loss": 0.6})
	}
	expect(running, false)
	r.event("close", nil)
	r.file(rundir.Synthetic, "")
	expect(complete, false)
}

// The curves of a long run take bounded memory and keep their ends; updates that are done again replace the old ones.
func TestCurves(t *testing.T) {
	var c curve
	const n = 100_000
	for i := range n {
		if c.addStep(i/100, i%100, float64(i)); c.points[len(c.points)-1].y != float64(i) {
			t.Fatalf("update %d is not the last point: %+v", i, c.points[len(c.points)-1])
		}
	}
	if len(c.points) > maxPoints || len(c.points) < maxPoints/3 || c.points[0].y != 0 ||
		c.points[len(c.points)-1].x != n {
		t.Errorf("%d points from %v to %v", len(c.points), c.points[0], c.points[len(c.points)-1])
	}
	c = curve{}
	for _, p := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {2, 3}, {2, 1}, {2, 2}} {
		c.addStep(p[0], p[1], 0)
	}
	if x, _ := c.xy(); len(x) != 4 || x[3] != 4 {
		t.Errorf("points at %v", x)
	}
}

// A log with made-up names and values cannot fill the memory.
func TestHostileLog(t *testing.T) {
	r := newRun(t)
	for i := range 5 * maxNames {
		r.event(fmt.Sprintf("made%d_step", i), map[string]any{"round": 1, "step": i, "loss": 1})
		r.event("stage_end", map[string]any{"stage": fmt.Sprint("made", i), "round": "x", "seconds": "y"})
	}
	r.event("progress", map[string]any{"done": "+Inf", "total": -5, "bytes": "many"})
	r.event("round_end", map[string]any{"loss": []any{1}})
	w := r.watch("")
	w.look(time.Now())
	if w.problem != "" || len(w.state.steps) > maxNames || len(w.state.times) > maxNames {
		t.Errorf("%s: %d curves, %d stages", w.problem, len(w.state.steps), len(w.state.times))
	}
}

func TestTexts(t *testing.T) {
	r := newRun(t)
	folder := rundir.Round(r.dir, 1)
	testfile.Folder(t, folder)
	type sample struct {
		Prompt int64  `parquet:"prompt_index"`
		Sample int64  `parquet:"sample_index"`
		Text   string `parquet:"text"`
	}
	list := []sample{{0, 0, "<script>alert(1)</script>"}, {0, 1, "\u202eabc"}, {0, 2, strings.Repeat("x", 1<<20)}}
	if err := rows.Write(filepath.Join(folder, rundir.Samples), list); err != nil {
		t.Fatal(err)
	}
	r.event("stage_begin", map[string]any{"stage": "collect", "round": 1})
	w := r.watch("")
	now := time.Now()
	if got := lookAt[roundTexts](t, w, secTexts, now); got.Scored || len(got.Best) != 3 || got.Worst != nil ||
		got.Samples != 3 {
		t.Errorf("before the scores: %+v", got)
	}
	if data := string(w.sections[secTexts].data); len(data) > 4000 || strings.Contains(data, "<script") ||
		strings.Contains(data, "\u202e") {
		t.Errorf("%d bytes: %.200s", len(data), data)
	}
	type score struct {
		Prompt int64   `parquet:"prompt_index"`
		Sample int64   `parquet:"sample_index"`
		Score  float64 `parquet:"score"`
	}
	if err := rows.Write(filepath.Join(folder, rundir.Scores), []score{{0, 0, 1}, {0, 1, 3}, {0, 2, 2}}); err != nil {
		t.Fatal(err)
	}
	if got := lookAt[roundTexts](t, w, secTexts, now); !got.Scored || *got.Best[0].Score != 3 ||
		*got.Best[2].Score != 1 || got.Best[0].Rank != 1 {
		t.Errorf("with scores: %+v", got)
	}
}

func get(t *testing.T, h http.Handler, method, path, host string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	request.Host = host
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer
}

// Only requests that name this machine are answered, and no page loads anything from elsewhere.
func TestServerTrustsFewHosts(t *testing.T) {
	h := newRun(t).watch("").Handler("127.0.0.1:80")
	for host, want := range map[string]int{"127.0.0.1:80": 200, "localhost:80": 200, "[::1]:80": 200, "10.1.2.3": 200,
		"LOCALHOST": 200, "evil.example": 421, "evil.example:80": 421, "": 421, "127.0.0.1.evil.example:80": 421} {
		for _, path := range []string{"/", "/metrics"} {
			answer := get(t, h, "GET", path, host)
			if answer.Code != want {
				t.Errorf("%s of %q: %d, want %d", path, host, answer.Code, want)
			}
			if csp := answer.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
				t.Errorf("%s of %q: the policy is %q", path, host, csp)
			}
		}
	}
	if get(t, newRun(t).watch("").Handler("box.example:80"), "GET", "/", "box.example:80").Code != 200 {
		t.Error("the name that the server listens at is refused")
	}
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z]|@import|\burl\(`)
	for _, path := range []string{"/", "/style.css", "/page.js"} {
		text := strings.ReplaceAll(get(t, h, "GET", path, "localhost").Body.String(), "http://www.w3.org/2000/svg", "")
		if len(text) < 500 {
			t.Errorf("%s has %d bytes", path, len(text))
		}
		if found := outside.FindString(text); found != "" {
			t.Errorf("%s refers to %q", path, found)
		}
	}
	for path, want := range map[string]int{"/nothing": 404, "/../events.jsonl": 404, "/favicon.ico": 204} {
		if got := get(t, h, "GET", path, "localhost").Code; got != want && got != http.StatusMovedPermanently &&
			got != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

func TestStopNeedsTheToken(t *testing.T) {
	r := newRun(t)
	if code := get(t, r.watch("").Handler("localhost:1"), "POST", "/stop", "localhost:1", tokenHeader,
		"").Code; code != 403 {
		t.Errorf("a read-only page: %d", code)
	}
	w := r.watch("secret")
	w.look(time.Now())
	h := w.Handler("localhost:1")
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"none":         {nil, 403},
		"wrong":        {[]string{tokenHeader, "Secret"}, 403},
		"other origin": {[]string{tokenHeader, "secret", "Origin", "http://evil.example"}, 403},
	} {
		if code := get(t, h, "POST", "/stop", "localhost:1", c.header...).Code; code != c.want ||
			rundir.Has(r.dir, rundir.Stop) {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := get(t, h, "GET", "/stop", "localhost:1", tokenHeader, "secret").Code; code == 200 ||
		rundir.Has(r.dir, rundir.Stop) {
		t.Errorf("GET: %d", code)
	}
	if code := get(t, h, "POST", "/stop", "localhost:1", tokenHeader, "secret", "Origin",
		"http://localhost:1").Code; code != 200 || !rundir.Has(r.dir, rundir.Stop) {
		t.Errorf("with the token: %d", code)
	}
	if h := lookAt[head](t, w, secHead, time.Now()); !h.Requested {
		t.Errorf("%+v", h)
	}
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"none":         {nil, 403},
		"wrong":        {[]string{tokenHeader, "Secret"}, 403},
		"other origin": {[]string{tokenHeader, "secret", "Origin", "http://evil.example"}, 403},
	} {
		if code := get(t, h, "DELETE", "/stop", "localhost:1", c.header...).Code; code != c.want ||
			!rundir.Has(r.dir, rundir.Stop) {
			t.Errorf("withdrawn with the token %s: %d", name, code)
		}
	}
	if code := get(t, r.watch("").Handler("localhost:1"), "DELETE", "/stop", "localhost:1", tokenHeader,
		"").Code; code != 403 || !rundir.Has(r.dir, rundir.Stop) {
		t.Errorf("withdrawn on a read-only page: %d", code)
	}
	if code := get(t, h, "DELETE", "/stop", "localhost:1", tokenHeader, "secret").Code; code != 200 ||
		rundir.Has(r.dir, rundir.Stop) {
		t.Errorf("withdrawn: %d", code)
	}
	if h := lookAt[head](t, w, secHead, time.Now()); h.Requested || !h.CanStop {
		t.Errorf("%+v", h)
	}
	if code := get(t, h, "DELETE", "/stop", "localhost:1", tokenHeader, "secret").Code; code != 409 {
		t.Errorf("withdrawn twice, or after it took effect: %d", code)
	}
	r.event("close", nil)
	w.look(time.Now())
	if code := get(t, h, "POST", "/stop", "localhost:1", tokenHeader, "secret").Code; code != 409 {
		t.Errorf("after the end: %d", code)
	}
}

// The report is served once it is there, in a sandbox: what it holds cannot act as the page does.
func TestReportIsServed(t *testing.T) {
	r := newRun(t)
	w := r.watch("secret")
	handler := w.Handler("localhost:1")
	if code := get(t, handler, "GET", "/report.html", "localhost:1").Code; code != 404 {
		t.Errorf("a report that is not there: %d", code)
	}
	r.file(rundir.Report, "<!doctype html><p>the report")
	r.file("report-texts.html", "<!doctype html><p>texts")
	for path, want := range map[string]string{"/report.html": "the report", "/report-texts.html": "texts"} {
		answer := get(t, handler, "GET", path, "localhost:1")
		if policy := answer.Header().Get("Content-Security-Policy"); answer.Code != 200 ||
			!strings.Contains(answer.Body.String(), want) || !strings.HasPrefix(policy, "sandbox ") ||
			strings.Contains(policy, "allow-same-origin") {
			t.Errorf("%s: %d, %q, %s", path, answer.Code, policy, answer.Body)
		}
	}
	if h := lookAt[head](t, w, secHead, time.Now()); !h.Report || h.Again != "popri watch "+r.dir {
		t.Errorf("%+v", h)
	}
}

// A column without a figure is left out.
func TestTimesWithoutMemory(t *testing.T) {
	r := newRun(t)
	r.event("stage_end", map[string]any{"stage": "a", "seconds": 1.5})
	w := r.watch("")
	if got := lookAt[table](t, w, secTimes, time.Now()); len(got.Head) != 2 || len(got.Rows[0]) != 2 {
		t.Errorf("%+v", got)
	}
	r.event("stage_end", map[string]any{"stage": "b", "seconds": 1.5, "peak_bytes": 1 << 30})
	if got := lookAt[table](t, w, secTimes, time.Now()); len(got.Head) != 3 || got.Rows[1][2] != "1.00" {
		t.Errorf("%+v", got)
	}
}

// Viewers get all sections at once and then what changes, each of them the same; when the watcher ends they get the
// rest.
func TestStream(t *testing.T) {
	r := newRun(t)
	w := r.watch("")
	w.look(time.Now())
	server := httptest.NewServer(w.Handler("127.0.0.1:0"))
	defer server.Close()
	var streams []*bufio.Scanner
	for range 2 {
		answer, err := http.Get(server.URL + "/events")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		streams = append(streams, bufio.NewScanner(answer.Body))
	}
	next := func(s *bufio.Scanner, event string) (data string) {
		t.Helper()
		for s.Scan() {
			if s.Text() == "event: "+event && s.Scan() {
				return strings.TrimPrefix(s.Text(), "data: ")
			}
		}
		t.Fatalf("the stream ended before %s (%v)", event, s.Err())
		return ""
	}
	for _, s := range streams {
		next(s, secHead)
		next(s, secTimes)
	}
	r.event("stage_begin", map[string]any{"stage": "generate", "round": 1})
	w.look(time.Now())
	for _, s := range streams {
		if data := next(s, secStage); !strings.Contains(data, `"generate"`) {
			t.Errorf("the stage is %s", data)
		}
	}
	r.event("close", nil)
	w.look(time.Now())
	close(w.over)
	for _, s := range streams {
		if data := next(s, secHead); !strings.Contains(data, ended) {
			t.Errorf("the end is %s", data)
		}
		for s.Scan() {
		}
	}
}

// Each line of the metrics is a comment or a name, labels and a number.
func TestMetrics(t *testing.T) {
	r := newRun(t)
	r.event("stage_end", map[string]any{"stage": "a \"b\" \\ \n c", "seconds": 1.5})
	r.event("round_end", map[string]any{"round": 1, "loss": 0.5})
	r.event("stage_begin", map[string]any{"stage": "dpo", "round": 2})
	w := r.watch("")
	w.look(time.Now())
	text := get(t, w.Handler("localhost:1"), "GET", "/metrics", "localhost:1").Body.String()
	line := regexp.MustCompile(`^(# (HELP|TYPE) popri_\w+ .+|popri_\w+(\{\w+="([^"\\\n]|\\["\\n])*"\})? [-+0-9.eE]+)$`)
	for l := range strings.Lines(text) {
		if !line.MatchString(strings.TrimSuffix(l, "\n")) {
			t.Errorf("%q is no line of the format", l)
		}
	}
	for _, want := range []string{`popri_run_status{status="running"} 1`, "popri_rounds_completed 1",
		`popri_round_figure{figure="loss"} 0.5`, `popri_stage_done{stage="dpo"} 0`,
		`popri_stage_seconds_total{stage="a \"b\" \\ \n c"} 1.5`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true,
		"0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false} {
		if Loopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}
