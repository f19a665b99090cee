package benchmark

import (
	"testing"

	"popri/internal/fault"
)

func TestScoreOfQuestions(t *testing.T) {
	if _, err := Score("mean/full", 0, 1); err == nil {
		t.Error("no samples are accepted")
	}
	for _, name := range []string{"cosine/standardize", "mean/full"} {
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
