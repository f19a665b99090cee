package benchmark

import "testing"

// The memory does not grow with the number of clients.
func TestScoreIsBounded(t *testing.T) {
	const clients = 5*ScoreClients + 1 // 430 MB at once
	r, err := Score(50, clients)
	if err != nil || r.Items != clients || r.Seconds <= 0 || r.Peak > 350<<20 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Score(0, 1); err == nil {
		t.Error("no samples are accepted")
	}
}
