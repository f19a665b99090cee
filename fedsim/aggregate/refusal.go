package aggregate

import (
	"errors"
	"fmt"
)

// Outcome says in a word what became of a message. Metrics count outcomes, and clients decide by them whether to try
// again.
type Outcome string

// The outcomes of a message.
const (
	Accepted    Outcome = "accepted"
	Repeated    Outcome = "repeated"    // it is held already: the same bytes
	Malformed   Outcome = "malformed"   // no message, a share of another length, or sealed to another key or announcement
	Unannounced Outcome = "unannounced" // it answers what was not announced
	NotEnrolled Outcome = "not_enrolled"
	Forged      Outcome = "forged"   // the signature is not the client's
	Replaced    Outcome = "replaced" // another report of the client is held
	Late        Outcome = "late"     // after the deadline
	Busy        Outcome = "busy"     // another batch is open
	Few         Outcome = "few"      // fewer reports than the announced least number: there will be no share
	Waiting     Outcome = "waiting"  // the deadline is ahead, or the other aggregator is not ready
	Budget      Outcome = "budget"   // the release would exceed what the aggregator allows
)

// Refusal is the error of a message that is not taken.
type Refusal struct {
	Outcome Outcome
	err     error
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %v", r.Outcome, r.err) }

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.err }

// Refuse makes a refusal.
func Refuse(o Outcome, format string, args ...any) error {
	return &Refusal{o, fmt.Errorf(format, args...)}
}

// OutcomeOf is the outcome of an error; "" for a failure.
func OutcomeOf(err error) Outcome {
	var r *Refusal
	switch {
	case err == nil:
		return Accepted
	case errors.As(err, &r):
		return r.Outcome
	}
	return ""
}
