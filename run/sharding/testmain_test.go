package sharding_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"popri/internal/testworld"
	"popri/run"
	"popri/run/sharding"
)

// childMerge is the environment variable with the key and the partial sums, on a line each, that a child process is to
// merge into the run's round 1.
const childMerge = "POPRI_TEST_MERGE"

// TestMain makes the test binary serve as the process that tests start and kill.
func TestMain(m *testing.M) {
	testworld.Serve(child)
	os.Exit(testworld.Main(m))
}

// child merges the partial sums of the run in dir.
func child(dir, _ string) error {
	files := strings.Split(os.Getenv(childMerge), "\n")
	_, err := sharding.Merge(sharding.MergeOptions{Dir: dir, Round: 1, Key: files[0], Parts: files[1:]})
	return err
}

// train runs one session to its end.
func train(ctx context.Context, o run.Options) error {
	s, err := run.Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Train(ctx)
}
