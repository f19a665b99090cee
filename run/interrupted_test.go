package run

import (
	"context"
	"errors"
	"testing"

	"popri/configs"
	"popri/methods/rounds"
)

// sameInterrupted compares an uninterrupted run with one of the same configuration that is stopped where each of the
// given stages begins, and resumed.
func sameInterrupted(t *testing.T, c configs.Config, want string, stages ...rounds.Stage) {
	t.Helper()
	dir := t.TempDir()
	o := Options{Config: c, Dir: dir}
	for _, at := range stages {
		ctx, stop := context.WithCancel(t.Context())
		o.Events.StageBegin = func(s rounds.Stage) {
			if s.Name == at.Name && s.Round == at.Round {
				stop()
			}
		}
		if err := train(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped at %s of round %d, the error is %v, want %v", at.Name, at.Round, err, context.Canceled)
		}
		o = Options{Dir: dir, Resume: true}
	}
	mustTrain(t, o)
	sameRun(t, dir, want)
}
