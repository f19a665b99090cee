package trackers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// at is the time of every test's points.
var at = time.UnixMilli(1_700_000_000_123)

// somePoints are two figures at the steps from first to last.
func somePoints(first, last int64) (points []Point) {
	for step := first; step <= last; step++ {
		for _, key := range []string{"loss", "rewards/margins"} {
			points = append(points, Point{key, step, at, float64(step) / 4})
		}
	}
	return points
}

// shown are the points as a reader of the tracker sees them, key by key.
func shown(points []Point) string {
	slices.SortStableFunc(points, func(a, b Point) int {
		if a.Key < b.Key {
			return -1
		} else if a.Key > b.Key {
			return 1
		}
		return 0
	})
	out := ""
	for _, p := range points {
		out += fmt.Sprintln(p.Key, p.Step, p.Value, p.Time.UnixMilli())
	}
	return out
}

// testTracker checks what every tracker must do. read returns the points that its reader sees.
func testTracker(t *testing.T, name string, getenv func(string) string, read func(t *testing.T, dir string) []Point) {
	check := func(t *testing.T, dir string, want []Point) {
		t.Helper()
		if got, want := shown(read(t, dir)), shown(want); got != want {
			t.Errorf("the reader sees\n%swant\n%s", got, want)
		}
	}
	begin := func(t *testing.T, dir string, history []Point) *Set {
		return Open([]string{name}, Run{Dir: dir, Name: "a run", YAML: []byte("seed: 1\n"),
			Params: []Pair{{"seed", "1"}},
			Tags:   []Pair{{"epsilon", "1"}}, History: history, Getenv: getenv}, func(text string) { t.Error(text) })
	}
	t.Run("points arrive", func(t *testing.T) {
		dir := t.TempDir()
		s := begin(t, dir, nil)
		s.Log(somePoints(1, 2))
		s.Log(somePoints(3, 3))
		s.Log(nil)
		s.Close(End{Finished, "protects all"})
		check(t, dir, somePoints(1, 3))
	})
	t.Run("many at once", func(t *testing.T) {
		dir := t.TempDir()
		s := begin(t, dir, somePoints(1, 1300))
		s.Close(End{Status: Finished})
		check(t, dir, somePoints(1, 1300))
	})
	// A killed process closes nothing, may not have written what it logged last, and repeats its last update.
	for wrote, logged := range map[string]int64{"all": 5, "less than it logged": 3, "more than its files have": 7} {
		t.Run("killed and resumed, had written "+wrote, func(t *testing.T) {
			dir := t.TempDir()
			first := begin(t, dir, nil)
			first.Log(somePoints(1, logged))
			first.Close(End{Status: Killed})
			second := begin(t, dir, somePoints(1, 5))
			second.Log(somePoints(5, 9))
			second.Close(End{Status: Finished})
			check(t, dir, somePoints(1, 9))
			third := begin(t, dir, somePoints(1, 9))
			third.Close(End{Status: Finished})
			check(t, dir, somePoints(1, 9))
		})
	}
	t.Run("extreme values", func(t *testing.T) {
		dir := t.TempDir()
		want := []Point{{"odd key ε", 0, at, 0}, {"small", 1, at, math.SmallestNonzeroFloat32},
			{"tall", math.MaxInt32, at, -math.MaxFloat32}}
		s := begin(t, dir, nil)
		s.Log(want)
		s.Close(End{Status: Failed})
		if name == "mlflow" {
			want[0].Key = "odd key _"
		}
		check(t, dir, want)
	})
}

// failing is a tracker all of whose calls fail.
type failing struct{ calls int }

func (f *failing) Log([]Point) error { f.calls++; return errors.New("no") }
func (f *failing) Close(End) error   { f.calls++; return errors.New("no") }

func TestSetWarnsOnceForEachTracker(t *testing.T) {
	var said []string
	bad, good := &failing{}, &failing{}
	s := &Set{last: map[string]int64{}, warn: func(text string) { said = append(said, text) },
		list: []*member{{Tracker: bad, name: "a"}, {Tracker: good, name: "b"}}}
	s.Log(somePoints(1, 2))
	s.Log(somePoints(1, 2)) // known already
	s.Log(somePoints(3, 3))
	s.Close(End{})
	s.Close(End{})
	if want := []string{"a: no; the run continues without", "b: no; the run continues without"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if bad.calls != 3 || good.calls != 3 {
		t.Errorf("%d and %d calls, want 3: two with new points, one to close", bad.calls, good.calls)
	}
}

func TestCheck(t *testing.T) {
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	for names, want := range map[string]string{
		"tensorboard":             "",
		"wandb":                   `"wandb" is no tracker; there are tensorboard, mlflow, otel`,
		"tensorboard tensorboard": "the tracker tensorboard is named twice",
		"mlflow":                  `mlflow: MLFLOW_TRACKING_URI is "", must be the URL of a server, such as http://127.0.0.1:5000`,
	} {
		got := ""
		if err := Check(fieldsOf(names), getenv); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
	for uri, ok := range map[string]bool{"http://host:5000": true, "https://user:word@host/path": true,
		"sqlite:///a.db": false, "databricks": false, "http://": false, "http://user:word@ho st": false,
		"ftp://user:word@host": false} {
		env["MLFLOW_TRACKING_URI"] = uri
		err := Check([]string{"mlflow"}, getenv)
		if (err == nil) != ok {
			t.Errorf("%s: %v", uri, err)
		}
		if err != nil && containsWord(err.Error()) {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	env["MLFLOW_TRACKING_URI"] = "http://host:5000"
	for seconds, ok := range map[string]bool{"": true, "1": true, "86400": true, "0": false, "-1": false,
		"86401": false, "10s": false} {
		env["MLFLOW_HTTP_REQUEST_TIMEOUT"] = seconds
		if err := Check([]string{"mlflow"}, getenv); (err == nil) != ok {
			t.Errorf("a limit of %q seconds: %v", seconds, err)
		}
	}
}
