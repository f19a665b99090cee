package benchmark

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"popri/internal/fault"
)

// The memory does not grow with the number of clients. It is that of the process, so this test has one of its own.
func TestScoreIsBounded(t *testing.T) {
	const alone = "POPRI_TEST_SCORE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestScoreIsBounded$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	const clients = 5*ScoreClients + 1 // 430 MB at once
	r, err := Score("cosine/standardize", 50, clients)
	if err != nil || r.Items != clients || r.Seconds <= 0 || r.Peak > 350<<20 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestScoreOfQuestions(t *testing.T) {
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
