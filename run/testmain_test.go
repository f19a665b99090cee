package run

import (
	"context"
	"os"
	"strings"
	"testing"

	"popri/configs"
	"popri/internal/rundir"
	"popri/methods/rounds"
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

// trained runs a configuration to its end in a new folder.
func trained(t *testing.T, c configs.Config) string {
	t.Helper()
	dir := t.TempDir()
	if err := train(t.Context(), Options{Config: c, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// trainedSession is trained with the session, which the test's end closes.
func trainedSession(t *testing.T, c configs.Config) (*Session, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(t.Context(), Options{Config: c, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
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
