package federated_test

import (
	"context"
	"os"
	"testing"

	"popri/run"
	"popri/testkit/testworld"
)

func TestMain(m *testing.M) { os.Exit(testworld.Main(m)) }

// train runs one session to its end.
func train(ctx context.Context, o run.Options) error {
	s, err := run.Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Train(ctx)
}
