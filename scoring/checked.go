package scoring

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Checked is the shape of a release that ends in check values: zeros of every client, so that they hold noise alone.
type Checked struct{ values, checks int }

// CheckedOf returns the shape of a release with the given number of values, if its name is that of a [Mean] or of a [Joint]. A number of
// values that the name does not allow is an error.
func CheckedOf(name string, values int) (c Checked, ok bool, err error) {
	features := 0
	mean, ok := parseMean(name)
	c = Checked{values, mean.Checks}
	if joint, with := parseJoint(name); with {
		c.checks, features, ok = joint.Checks, joint.Features.Len(), true
	}
	if ok && values-c.checks-features < 1 {
		return Checked{}, true, fmt.Errorf("scoring: a release of %q with %d values, of which %d are checks and %d features", name,
			values, c.checks, features)
	}
	return c, ok, nil
}

// Len is the number of values.
func (c Checked) Len() int { return c.values }

// Rank is the dimension of the space in which every sum lies.
func (c Checked) Rank() int { return c.values - c.checks }

// Project returns the part of a noised sum that lies in the space of true sums: all but the check values.
func (c Checked) Project(noised []float64) ([]float64, error) {
	if len(noised) != c.values {
		return nil, fmt.Errorf("scoring: a sum of %d values, want %d", len(noised), c.values)
	}
	inside := slices.Clone(noised)
	clear(inside[c.Rank():])
	return inside, nil
}

// withChecks appends the number of check values to the name of a question that has some.
func withChecks(name string, checks int) string {
	if checks > 0 {
		name += "+" + strconv.Itoa(checks)
	}
	return name
}

// cutChecks is the inverse of withChecks for names that it makes. Callers compare other names with what theirs would be.
func cutChecks(name string) (kind string, checks int) {
	kind, number, has := strings.Cut(name, "+")
	if has {
		checks, _ = strconv.Atoi(number)
	}
	return kind, checks
}
