package ledger

import (
	"errors"
	"fmt"
	"slices"

	"popri/accountant"
)

// BudgetError is the error of a refused charge; it is [ErrBudget].
type BudgetError struct {
	Path           string
	Spent, After   float64 // ε now, and ε after the charge
	Epsilon, Delta float64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("ledger: %s: %v: epsilon %s is spent, this release would make it %s of %g at delta %.3g",
		e.Path, ErrBudget, accountant.RoundUp(e.Spent, 6), accountant.RoundUp(e.After, 6), e.Epsilon, e.Delta)
}

// Is makes errors.Is find [ErrBudget].
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }

// Budget is what a run may spend, and whom it protects. It never changes after [Create].
type Budget struct {
	Epsilon float64 `json:"epsilon"` // may be +Inf: no protection, every charge passes
	Delta   float64 `json:"delta"`
	// Mechanism names the noise of what is released: "gaussian" of sums, "gumbel" of selections.
	Mechanism string `json:"mechanism"`
	// Unit says whose texts are protected: "a client is …".
	Unit string `json:"unit"`
	// Relation says which data sets count as neighbours. Runs state [accountant.ZeroOut], or [accountant.Replace] for
	// cohorts of a fixed size; ledgers of earlier versions state [accountant.AddOrRemove].
	Relation accountant.Relation `json:"relation"`
	// Data identifies the population's private data, so that a ledger is only continued on the same data. "" means that
	// the data are not known ([Continue]).
	Data string `json:"data"`
	// Group is the number of clients that one protected person may have; 0 means 1.
	Group int `json:"group"`
	// Clients is the size of the population. Delta must be below 1/Clients: above it, releasing one client's data in
	// full would pass as private.
	Clients int `json:"clients"`
	// ForcedDelta accepts a Delta of 1/Clients or more. Reports must say so.
	ForcedDelta bool `json:"forced_delta"`
	// InsecureSeededNoise says that the noise can be computed from the run's seed, so that nothing is protected.
	InsecureSeededNoise bool `json:"insecure_seeded_noise"`
}

// Validate returns an error that is [ErrBadBudget] and names every bad value.
func (b Budget) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !(b.Epsilon > 0) {
		fault("epsilon is %g, want more than 0", b.Epsilon)
	}
	if !(b.Delta > 0 && b.Delta < 1) {
		fault("delta is %g, want more than 0 and less than 1", b.Delta)
	}
	if b.Clients < 1 {
		fault("%d clients, want at least 1", b.Clients)
	} else if b.Delta >= 1/float64(b.Clients) && !b.ForcedDelta {
		fault("delta is %g, want less than 1/clients = %.3g: at that delta, publishing one client's texts would "+
			"count as private", b.Delta, 1/float64(b.Clients))
	}
	if b.Mechanism != "gaussian" && b.Mechanism != string(accountant.Gumbel) {
		fault("mechanism is %q, want \"gaussian\" or %q", b.Mechanism, accountant.Gumbel)
	}
	if err := b.Relation.Validate(); err != nil {
		faults = append(faults, err)
	}
	if b.Group < 0 || b.Group > 1000 || b.Group > max(1, b.Clients) {
		fault("%d clients in a group, want 1 to 1000 and no more than there are", b.Group)
	}
	if b.Unit == "" {
		fault("the unit of privacy is not stated")
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrBadBudget, errors.Join(faults...))
	}
	return nil
}

// Differs lists in words the values that differ: "epsilon is 7, was 3". b is the wanted budget, other the existing one.
// Hashes are left out, because people do not compare them by eye.
func (b Budget) Differs(other Budget) []string {
	return slices.Concat(compare("epsilon", b.Epsilon, other.Epsilon), compare("delta", b.Delta, other.Delta),
		compare("forced delta", b.ForcedDelta, other.ForcedDelta), b.protects(other))
}

// protects lists the differences in whom the budgets protect, and how.
func (b Budget) protects(other Budget) []string {
	var out []string
	switch {
	case b.Data == other.Data:
	case other.Data == "":
		out = append(out, "which private data it was for is not known")
	case b.Data == "":
		out = append(out, "which private data it is for is not known")
	default:
		out = append(out, "the private data is not what it was")
	}
	return slices.Concat(out, compare("relation", string(b.Relation), string(other.Relation)),
		compare("number of clients", b.Clients, other.Clients),
		compare("clients in a group", max(1, b.Group), max(1, other.Group)),
		compare("privacy unit", b.Unit, other.Unit), compare("mechanism", b.Mechanism, other.Mechanism),
		compare("insecure seeded noise", b.InsecureSeededNoise, other.InsecureSeededNoise))
}

// compare returns the sentence about a value that differs, or none.
func compare[T comparable](name string, is, was T) []string {
	if is == was {
		return nil
	}
	if _, text := any(is).(string); text {
		return []string{fmt.Sprintf("%s is %q, was %q", name, any(is), any(was))}
	}
	return []string{fmt.Sprintf("%s is %v, was %v", name, is, was)}
}
