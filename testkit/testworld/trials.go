package testworld

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Trials is the number of trials that a test of kills or faults makes: each, or as many times more as POPRI_TRIALS
// says.
func Trials(t *testing.T, each int) int {
	t.Helper()
	text := os.Getenv("POPRI_TRIALS")
	if text == "" {
		return each
	}
	times, err := strconv.Atoi(text)
	if err != nil || times < 1 {
		t.Fatalf("POPRI_TRIALS is %q, want a whole number of 1 or more", text)
	}
	return times * each
}

// Late reports whether the time limit of the tests is so near that no further trial should begin.
func Late(t *testing.T) bool {
	end, ok := t.Deadline()
	return ok && time.Until(end) < 2*time.Minute
}
