package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/fault"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/rounds"
	"popri/methods/sampling"
	"popri/run/reporting"
	"popri/testkit/testworld"
)

// TestMain makes the test binary serve as the process that tests start and kill.
func TestMain(m *testing.M) {
	testworld.Serve(child)
	os.Exit(testworld.Main(m)) // the children inherit its key
}

// child starts the run in dir, or continues with it.
func child(dir, config string) error {
	stage := os.Getenv(childStage)
	if stage == "" {
		if err := limitChild(); err != nil {
			return err
		}
	}
	o := Options{Dir: dir, Resume: rundir.Exists(dir)}
	if !o.Resume {
		c, err := configs.Load(configs.LoadOptions{File: config})
		if err != nil {
			return err
		}
		o.Config = *c
	}
	o.Events.StageBegin = func(s rounds.Stage) {
		if stage != "" && strings.HasPrefix(s.Name, stage) {
			if err := limitChild(); err != nil {
				panic(err)
			}
		}
	}
	if err := train(context.Background(), o); err != nil || stage != "report" {
		return err
	}
	if err := limitChild(); err != nil {
		return err
	}
	_, err := reporting.Write(dir)
	return err
}

// train runs one session to its end.
func train(ctx context.Context, o Options) error {
	s, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Train(ctx)
}

// refuses asks for a run: the error is the user's and names what is wrong, which is not the budget, and there is no
// folder.
func refuses(t *testing.T, c configs.Config, wrong string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := train(t.Context(), Options{Config: c, Dir: dir}); !fault.IsUser(err) || errors.Is(err, ledger.ErrBudget) ||
		!strings.Contains(err.Error(), wrong) || exists(dir) {
		t.Errorf("method %s, want %q: %v; there is a folder: %v", c.Method, wrong, err, exists(dir))
	}
}

// mustTrain is [train] of what may not fail.
func mustTrain(t *testing.T, o Options) {
	t.Helper()
	if err := train(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// mustOpen is [Open] of what may not fail.
func mustOpen(t *testing.T, o Options) *Session {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// samplesIn reads a file of texts with their tokens.
func samplesIn(t *testing.T, path string) []sampling.Row {
	t.Helper()
	return rowsIn[sampling.Row](t, path)
}

// rowsIn reads a file of rows.
func rowsIn[T any](t *testing.T, path string) []T {
	t.Helper()
	list, err := rows.Read[T](path)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// trained runs a configuration to its end in a new folder.
func trained(t *testing.T, c configs.Config) string {
	t.Helper()
	dir := t.TempDir()
	mustTrain(t, Options{Config: c, Dir: dir})
	return dir
}

// trainedSession is trained with the session, which the test's end closes.
func trainedSession(t *testing.T, c configs.Config) (*Session, string) {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, Options{Config: c, Dir: dir})
	t.Cleanup(s.Close)
	if err := s.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
