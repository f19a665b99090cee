package benchmark

import (
	"testing"

	"popri/internal/fault"
)

// The memory does not grow with the number of clients.
func TestScoreIsBounded(t *testing.T) {
	const clients = 5*ScoreClients + 1 // 430 MB at once
	r, err := Score("cosine/standardize", 50, clients)
	if err != nil || r.Items != clients || r.Seconds <= 0 || r.Peak > 350<<20 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Score("mean/full", 0, 1); err == nil {
		t.Error("no samples are accepted")
	}
	for _, name := range []string{"compact/standardize", "mean/full"} {
		if r, err := Score(name, 50, 3); err != nil || r.Items != 3 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, name := range []string{"votes/10", "none"} {
		if _, err := Score(name, 50, 3); !fault.IsUser(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
