package trackers

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/internal/rundir"
	"popri/testkit/testfile"
)

// patient waits for a healthy server as long as a test may take, and repeats what failed at once.
var patient = limits{request: time.Minute, pause: time.Millisecond, longest: time.Millisecond, drain: time.Minute,
	lastChance: time.Minute, queue: 1000, batch: 7}

// hasty gives up at once.
var hasty = limits{request: time.Millisecond, pause: time.Hour, longest: time.Hour, drain: time.Millisecond,
	lastChance: time.Millisecond, queue: 10, batch: 7}

func begin(t *testing.T, f *fakeMLflow, dir string, l limits, history ...Point) *mlflow {
	t.Helper()
	m, err := newMLflow(Run{Dir: dir, Name: "a run",
		Params: []Pair{{"dpo.beta", "0.1"}, {"long", strings.Repeat("ä", 400)}},
		Tags:   []Pair{{"epsilon", "1"}}, History: history, Getenv: f.getenv}, l)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// only is the one run on the server.
func (f *fakeMLflow) only(t *testing.T) *fakeRun {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.runs) != 1 {
		t.Fatalf("%d runs on the server, want 1", len(f.runs))
	}
	return f.runs[0]
}

func TestMLflow(t *testing.T) {
	f := newFakeMLflow(t) // each case has a folder of its own, and so a run of its own
	testTracker(t, "mlflow", f.getenv, func(t *testing.T, dir string) []Point {
		var state mlflowState
		testfile.ReadJSON(t, filepath.Join(dir, rundir.MLflow), &state)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.runs {
			if r.id == state.RunID {
				return append([]Point(nil), r.figures...)
			}
		}
		t.Fatalf("the server has no run %q", state.RunID)
		return nil
	})
}

func TestMLflowDescribesTheRun(t *testing.T) {
	f, dir := newFakeMLflow(t), t.TempDir()
	if err := begin(t, f, dir, patient).Close(End{Killed, "protects all"}); err != nil {
		t.Fatal(err)
	}
	run := f.only(t)
	if f.experiments["the experiment"] != run.experiment || run.name != "a run" || run.status != "KILLED" ||
		run.params["dpo.beta"] != "0.1" || run.params["long"] != strings.Repeat("ä", 248)+"…" ||
		run.tags["popri.epsilon"] != "1" || run.tags["popri.guarantee"] != "protects all" {
		t.Errorf("%+v", run)
	}
	if err := begin(t, f, dir, patient).Close(End{Status: Finished}); err != nil {
		t.Fatal(err)
	}
	if f.only(t).status != "FINISHED" { // and there is still one
		t.Errorf("the status is %s", run.status)
	}
}

// Whatever fails a few times, and whether it had its effect or not: all figures arrive once, in one run.
func TestMLflowFailuresPass(t *testing.T) {
	broken := map[string]func(w http.ResponseWriter){
		"500":       func(w http.ResponseWriter) { w.WriteHeader(500) },
		"429":       func(w http.ResponseWriter) { w.WriteHeader(429) },
		"no answer": func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"no JSON":   func(w http.ResponseWriter) { w.WriteHeader(502); _, _ = w.Write([]byte("<html>")) },
		"half of it": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "90")
			_, _ = w.Write([]byte("{"))
		},
	}
	for what, fail := range broken {
		for _, call := range []string{"experiments/get-by-name", "experiments/create", "runs/create", "runs/get",
			"runs/log-batch"} {
			for _, late := range []bool{false, true} {
				if late && call == "experiments/create" && what != "500" {
					continue
				}
				f := newFakeMLflow(t)
				f.Config.ErrorLog = nil
				left := 2
				f.fault = func(w http.ResponseWriter, r *http.Request, c string, done bool) bool {
					hit := false
					f.locked(func() {
						if hit = c == call && done == late && left > 0; hit {
							left--
						}
					})
					if hit {
						fail(w)
					}
					return hit
				}
				m := begin(t, f, t.TempDir(), patient, somePoints(1, 4)...)
				_ = m.Log(somePoints(5, 9)) // may report the failure
				for m.waiting() {           // as a run that is not at its end
					time.Sleep(time.Millisecond)
				}
				_ = m.Close(End{Status: Finished})
				run := f.only(t)
				if got, want := shown(run.figures), shown(somePoints(1, 9)); got != want || run.status != "FINISHED" ||
					run.params["dpo.beta"] != "0.1" {
					t.Errorf("%s at %s, late %v: the server has\n%s, want\n%s", what, call, late, got, want)
				}
			}
		}
	}
}

// waiting says that points are on their way, or that no point was ever confirmed.
func (m *mlflow) waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) > 0 && !m.refused
}

// TestMLflowHasMoreThanTheFiles: a process was killed after it had sent updates that its files do not have. The process
// that continues repeats them, before or after the server has said what it has.
func TestMLflowHasMoreThanTheFiles(t *testing.T) {
	has := map[string]int64{"loss": 7, "rewards/margins": 6}
	for _, early := range []bool{true, false} {
		m := &mlflow{}
		m.limits.queue = 100
		if !early {
			m.forget(has)
		}
		if err := m.Log(somePoints(5, 9)); err != nil {
			t.Fatal(err)
		}
		if early {
			m.forget(has)
		}
		want := slices.DeleteFunc(somePoints(5, 9), func(p Point) bool { return p.Step <= has[p.Key] })
		if !slices.Equal(m.queue, want) || len(want) != 5 {
			t.Errorf("early %t: the queue has %v, want %v", early, m.queue, want)
		}
	}
}

// A server that was never there, or that hangs, costs one error and leaves the rest to the next process.
func TestMLflowWithoutServer(t *testing.T) {
	for _, what := range []string{"never there", "hangs"} {
		t.Run(what, func(t *testing.T) {
			f, dir := newFakeMLflow(t), t.TempDir()
			release := make(chan struct{})
			if what == "hangs" {
				f.fault = func(w http.ResponseWriter, r *http.Request, call string, done bool) bool {
					<-release
					return true
				}
			} else {
				f.Close()
			}
			m := begin(t, f, dir, hasty)
			told := 0
			for step := int64(1); step <= 50; step++ { // more than fit into the queue
				if m.Log(somePoints(step, step)) != nil {
					told++
				}
			}
			if m.Close(End{Status: Finished}) != nil {
				told++
			}
			close(release)
			if told < 1 || told > 2 || len(m.queue) > m.limits.queue {
				t.Errorf("%d errors, %d points are kept", told, len(m.queue))
			}
			if what == "never there" {
				return
			}
			f.locked(func() { f.fault = nil })
			if err := begin(t, f, dir, patient, somePoints(1, 50)...).Close(End{Status: Finished}); err != nil {
				t.Fatal(err)
			}
			if got, want := shown(f.runs[len(f.runs)-1].figures), shown(somePoints(1, 50)); got != want {
				t.Errorf("the next process sent\n%s, want\n%s", got, want)
			}
		})
	}
}

// A server that dies in mid-run keeps what it has, and the next process adds the rest to the same run.
func TestMLflowDiesInMidRun(t *testing.T) {
	f, dir := newFakeMLflow(t), t.TempDir()
	l := patient
	l.pause = time.Hour
	m := begin(t, f, dir, l, somePoints(1, 3)...)
	for m.waiting() {
		time.Sleep(time.Millisecond)
	}
	f.locked(func() {
		f.fault = func(w http.ResponseWriter, r *http.Request, call string, done bool) bool {
			panic(http.ErrAbortHandler)
		}
	})
	_ = m.Log(somePoints(4, 6))
	if err := m.Close(End{Status: Finished}); err == nil {
		t.Error("nobody was told")
	}
	if got, want := shown(f.only(t).figures), shown(somePoints(1, 3)); got != want {
		t.Errorf("the server has\n%s, want\n%s", got, want)
	}
	f.locked(func() { f.fault = nil })
	if err := begin(t, f, dir, patient, somePoints(1, 6)...).Close(End{Status: Finished}); err != nil {
		t.Fatal(err)
	}
	if got, want := shown(f.only(t).figures), shown(somePoints(1, 6)); got != want {
		t.Errorf("the server has\n%s, want\n%s", got, want)
	}
}

// Figures that find no room in the queue leave no gap that a later process would not see.
func TestMLflowFullQueue(t *testing.T) {
	f, dir := newFakeMLflow(t), t.TempDir()
	f.fault = func(w http.ResponseWriter, r *http.Request, call string, done bool) bool {
		w.WriteHeader(500)
		return true
	}
	l := patient
	l.queue = 10
	m := begin(t, f, dir, l)
	_ = m.Log(somePoints(1, 50))
	f.locked(func() { f.fault = nil })
	for m.waiting() {
		time.Sleep(time.Millisecond)
	}
	_ = m.Log(somePoints(51, 51))
	_ = m.Close(End{Status: Finished})
	if got, want := shown(f.only(t).figures), shown(somePoints(1, 5)); got != want {
		t.Errorf("the server has\n%s, want\n%s", got, want)
	}
	if err := begin(t, f, dir, patient, somePoints(1, 51)...).Close(End{Status: Finished}); err != nil {
		t.Fatal(err)
	}
	if got, want := shown(f.only(t).figures), shown(somePoints(1, 51)); got != want {
		t.Errorf("the server has\n%s, want\n%s", got, want)
	}
}

// What the server refuses for good is not tried again.
func TestMLflowRefuses(t *testing.T) {
	f := newFakeMLflow(t)
	f.fault = func(w http.ResponseWriter, r *http.Request, call string, done bool) bool {
		if call != "runs/log-batch" {
			return false
		}
		w.WriteHeader(403)
		_, _ = w.Write([]byte(`{"error_code": "PERMISSION_DENIED", "message": "not yours"}`))
		return true
	}
	m := begin(t, f, t.TempDir(), patient, somePoints(1, 3)...)
	err := m.Close(End{Status: Finished})
	if err == nil || err.Error() != `runs/log-batch: the server answers 403 PERMISSION_DENIED "not yours"` ||
		f.calls["runs/log-batch"] != 1 {
		t.Errorf("%v, after %d calls", err, f.calls["runs/log-batch"])
	}
	if err := m.Log(somePoints(4, 4)); err != nil || len(m.queue) != 0 {
		t.Errorf("%v, %d points are kept", err, len(m.queue))
	}
}

// A run that the server has lost begins again there; one that is on another server does, too.
func TestMLflowUnknownRun(t *testing.T) {
	f, dir := newFakeMLflow(t), t.TempDir()
	if err := begin(t, f, dir, patient, somePoints(1, 2)...).Close(End{Status: Finished}); err != nil {
		t.Fatal(err)
	}
	f.locked(func() { f.runs = nil })
	other := newFakeMLflow(t)
	for _, server := range []*fakeMLflow{f, other} {
		if err := begin(t, server, dir, patient, somePoints(1, 2)...).Close(End{Status: Finished}); err != nil {
			t.Fatal(err)
		}
		if got, want := shown(server.only(t).figures), shown(somePoints(1, 2)); got != want {
			t.Errorf("the server has\n%s, want\n%s", got, want)
		}
	}
}

// Credentials go to the server and to no file or error.
func TestMLflowCredentials(t *testing.T) {
	f, dir := newFakeMLflow(t), t.TempDir()
	var got []string
	f.fault = func(w http.ResponseWriter, r *http.Request, call string, done bool) bool {
		f.locked(func() { got = append(got, r.Header.Get("Authorization")) })
		w.WriteHeader(500)
		return true
	}
	env := map[string]string{"MLFLOW_TRACKING_URI": strings.Replace(f.URL, "http://", "http://user:password@", 1)}
	for name, want := range map[string]string{"": "Basic dXNlcjpwYXNzd29yZA==",
		"MLFLOW_TRACKING_TOKEN": "Bearer token"} {
		env["MLFLOW_TRACKING_TOKEN"] = ""
		if name != "" {
			env[name] = "token"
		}
		got = nil
		l := patient
		l.pause = time.Hour
		m, err := newMLflow(Run{Dir: dir, Getenv: func(name string) string { return env[name] }}, l)
		if err != nil {
			t.Fatal(err)
		}
		err = m.Close(End{Status: Finished})
		if err == nil || containsWord(err.Error()) {
			t.Errorf("the error is %v", err)
		}
		if len(got) == 0 || got[0] != want {
			t.Errorf("the server got %q, want %q", got, want)
		}
		b, err := os.ReadFile(filepath.Join(dir, rundir.MLflow))
		if err == nil && containsWord(string(b)) {
			t.Errorf("the file tells the password: %s", b)
		}
	}
}
