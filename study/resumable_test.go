package study

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"popri/internal/fault"
	"popri/methods/rounds"
	"popri/run/federated"
)

// A request to stop ends an ablation as Ctrl-C does; a failure leaves its other runs.
func TestResumable(t *testing.T) {
	for _, err := range []error{context.Canceled, fmt.Errorf("round 2: %w", context.Canceled), rounds.Stopped{Round: 1},
		errors.Join(rounds.Stopped{Round: 1}), fmt.Errorf("cell: %w", &federated.FewError{})} {
		if !fault.IsResumable(err) {
			t.Errorf("%v counts as a failure", err)
		}
	}
	for _, err := range []error{errors.New("no space"), context.DeadlineExceeded} {
		if fault.IsResumable(err) {
			t.Errorf("%v counts as an interruption", err)
		}
	}
}
