package rounds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/fedsim/release"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
	"popri/show/series"
	"popri/testkit/testfile"
)

// recorder is a method that notes what it is asked to do, and fails where it is told to.
type recorder struct {
	calls []string
	fail  string
}

var errFailed = errors.New("failed")

func (m *recorder) call(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	m.calls = append(m.calls, call)
	if call == m.fail {
		return errFailed
	}
	return nil
}

func (m *recorder) Restore(round int) error { return m.call("restore %d", round) }
func (m *recorder) Prune(round int) error   { return m.call("prune %d", round) }
func (m *recorder) Close()                  {}

func (m *recorder) Round(_ context.Context, r *Round) error {
	q, err := scoring.NewCosine(embedding.Matrix{Rows: 2, Dim: 1, Data: []float32{1, 1}},
		scoring.Options{Normalize: scoring.None, Clip: 1}, "k")
	if err != nil {
		return err
	}
	answer, err := r.Collect(q)
	if err != nil {
		return err
	}
	r.Log("seen", map[string]any{"sum": answer.Sum[0]})
	r.Figures.Set("own", float64(r.Number))
	return r.Stage("work", func(s Stage) error {
		s.Progress(1, 2)
		return m.call("round %d", r.Number)
	})
}

func (m *recorder) Product(_ context.Context, _ Stage, file string) ([]sampling.Row, error) {
	if err := m.call("product"); err != nil {
		return nil, err
	}
	return nil, os.WriteFile(file, []byte("x"), 0o644)
}

// answers releases the same sum in each round.
type answers struct{ asked []query.Query }

func (a *answers) Collect(r release.Request) (*release.Release, error) {
	a.asked = append(a.asked, r.Query.(query.Query))
	return &release.Release{Round: r.Round, Sum: []float64{0.5, 1}, Clients: 7, Sigma: 1.5}, nil
}

// A run that failed in any place continues after the newest complete round, and every round's figures are kept.
func TestRoundsGoOn(t *testing.T) {
	for fail, want := range map[string]struct{ first, second string }{
		"":          {"restore 0, round 1, prune 1, round 2, prune 2, restore 2, product", "restore 2"},
		"round 2":   {"restore 0, round 1, prune 1, round 2", "restore 1, round 2, prune 2, restore 2, product"},
		"prune 2":   {"restore 0, round 1, prune 1, round 2, prune 2", "prune 2, restore 2, restore 2, product"},
		"restore 0": {"restore 0", "restore 0, round 1, prune 1, round 2, prune 2, restore 2, product"},
		"product": {"restore 0, round 1, prune 1, round 2, prune 2, restore 2, product",
			"restore 2, restore 2, product"},
	} {
		dir := t.TempDir()
		run := func(fail string) (string, error) {
			m := &recorder{fail: fail}
			tr := New(Options{Dir: dir, Rounds: 2, Method: m, Clients: &answers{},
				Spent: func() (float64, error) { return 3.25, nil }})
			err := tr.Train(t.Context())
			if err == nil {
				err = tr.Product(t.Context())
			}
			return strings.Join(m.calls, ", "), err
		}
		got, err := run(fail)
		if got != want.first || (fail == "") != (err == nil) || err != nil && !errors.Is(err, errFailed) {
			t.Errorf("failing at %q: %s (%v), want %s", fail, got, err, want.first)
		}
		if got, err := run(""); got != want.second || err != nil {
			t.Errorf("after failing at %q: %s (%v), want %s", fail, got, err, want.second)
		}
		rounds, err := ReadMetrics(dir)
		if err != nil || len(rounds) != 2 {
			t.Fatalf("%d rounds (%v)", len(rounds), err)
		}
		figures := map[string]float64{"clients": 7, "noise_multiplier": 1.5, series.EpsilonKey: 3.25, "own": 2}
		if !reflect.DeepEqual(rounds[1], series.Round{Number: 2, Values: figures}) {
			t.Errorf("round 2 has %+v", rounds[1])
		}
	}
}

func TestEventsReachEveryListener(t *testing.T) {
	var heard []string
	listener := func(name string) Events {
		note := func(format string, args ...any) { heard = append(heard, name+": "+fmt.Sprintf(format, args...)) }
		return Events{
			StageBegin: func(s Stage) { note("begin %s", s.Name) },
			StageEnd:   func(s Stage) { note("end %s", s.Name) },
			Progress:   func(s Stage, done, total int) { note("%s %d of %d", s.Name, done, total) },
			Log:        func(event string, round int, v any) { note("%s in round %d", event, round) },
			RoundEnd:   func(r series.Round) { note("round %d ends", r.Number) },
		}
	}
	tr := New(Options{Dir: t.TempDir(), Rounds: 1, Method: &recorder{}, Clients: &answers{},
		Events: Tee(listener("a"), Events{}, listener("b"))})
	if err := tr.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, event := range []string{"begin collect", "end collect", "seen in round 1", "begin work", "work 1 of 2",
		"end work", "round 1 ends"} {
		want = append(want, "a: "+event, "b: "+event)
	}
	if !reflect.DeepEqual(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func TestDamagedMarker(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, rundir.Latest), "rounds/x")
	if _, err := Latest(dir); err == nil || !strings.Contains(err.Error(), rundir.Latest) {
		t.Errorf("the error is %v", err)
	}
}

// A request to stop ends the run after the round in which it was made; the resumed run continues, and a request that is
// older than the run is dropped.
func TestStopsAfterTheRound(t *testing.T) {
	dir := t.TempDir()
	ask := func() {
		testfile.Write(t, filepath.Join(dir, rundir.Stop), "")
	}
	run := func(askIn int) error {
		m := &recorder{}
		events := Events{StageBegin: func(s Stage) {
			if s.Name == "work" && s.Round == askIn {
				ask()
			}
		}}
		return New(Options{Dir: dir, Rounds: 4, Method: m, Clients: &answers{}, Events: events}).Train(t.Context())
	}
	for i, c := range []struct{ askIn, done int }{{1, 1}, {3, 3}, {4, 4}} {
		ask() // before the run: it does not count
		err := run(c.askIn)
		var stopped Stopped
		if !errors.As(err, &stopped) || stopped.Round != c.done || !errors.Is(err, context.Canceled) {
			t.Errorf("%d: the error is %v", i, err)
		}
		if done, _ := Latest(dir); done != c.done || rundir.Has(dir, rundir.Stop) {
			t.Errorf("%d: %d rounds are done; the request is there: %v", i, done, rundir.Has(dir, rundir.Stop))
		}
	}
	if err := run(0); err != nil {
		t.Error(err)
	}
}

// TestForgetBegun: the round under way keeps what it was asked and answered, and nothing that other settings made; an answer
// about samples cannot outlive them.
func TestForgetBegun(t *testing.T) {
	for _, c := range []struct {
		samples, once bool
		want          []string
	}{{true, true, []string{"announcement.bin", "release.bin"}},
		{false, false, []string{"announcement.bin", "prompts.parquet", "release.bin", "samples.parquet"}}, {true, false, nil}} {
		dir := t.TempDir()
		for _, name := range []string{"announcement.bin", "prompts.parquet", "release.bin", "samples.parquet", "training.safetensors"} {
			testfile.Write(t, filepath.Join(rundir.Round(dir, 1), name), "x")
		}
		err := ForgetBegun(dir, c.samples, c.once)
		var left []string
		entries, _ := os.ReadDir(rundir.Round(dir, 1))
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if c.want == nil && (!fault.IsUser(err) || len(left) != 5) || c.want != nil && (err != nil || !slices.Equal(left, c.want)) {
			t.Errorf("%+v: %q are left (%v)", c, left, err)
		}
	}
	if err := ForgetBegun(t.TempDir(), true, false); err != nil {
		t.Errorf("no round: %v", err)
	}
}
