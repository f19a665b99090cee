package fedsim

import (
	"strings"
	"testing"

	"popri/scoring/counts"
)

// TestSeveral: each question goes to those who can answer it; one that nobody can answer is refused with all reasons.
func TestSeveral(t *testing.T) {
	s := Several{Embedded{}, Learning{learner{4}}}
	if c, err := s.who(updates(1)); err != nil || c != s[1] {
		t.Errorf("%T answers for weights (%v)", c, err)
	}
	if err := s.CanAnswer(counts.Question{}); err == nil || !strings.Contains(err.Error(), "cannot answer") ||
		!strings.Contains(err.Error(), "about weights") {
		t.Errorf("counts of tokens: %v", err)
	}
}
