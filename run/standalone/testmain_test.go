package standalone

import (
	"context"
	"os"
	"testing"

	"popri/configs"
	"popri/internal/rundir"
	"popri/testkit/testworld"
)

// childPairs is the environment variable with the pairs that a child process trains on.
const childPairs = "POPRI_TEST_PAIRS"

// TestMain makes the test binary serve as the process that tests start and kill.
func TestMain(m *testing.M) {
	testworld.Serve(child)
	os.Exit(testworld.Main(m))
}

// child does the training in dir, or continues with it.
func child(dir, config string) error {
	o := Options{Pairs: os.Getenv(childPairs), Out: dir, Resume: rundir.Has(dir, settingsFile)}
	if !o.Resume {
		c, err := configs.Load(configs.LoadOptions{File: config})
		if err != nil {
			return err
		}
		o.Config = *c
	}
	_, err := Train(context.Background(), o)
	return err
}
