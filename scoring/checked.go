package scoring

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"popri/scoring/query"
)

// RoundChecks is the number of check values of a question that is asked in every round and whose sums fill the whole
// space. With 256 of them, an audit finds noise of 0.7 of what was charged or less in one release, and 0.9 in eight.
const RoundChecks = 256

// WithChecks is a question whose answers end in n check values. They move no sum and cost no privacy.
func WithChecks(q query.Query, n int) query.Query { return checking{q, n} }

// checking is a question with check values.
type checking struct {
	query.Query
	checks int
}

// Name implements query.Query.
func (c checking) Name() string { return CheckedName(c.Query.Name(), c.checks) }

// Len implements query.Query.
func (c checking) Len() int { return c.Query.Len() + c.checks }

// Vector implements query.Query.
func (c checking) Vector(clients query.Clients, i int) ([]float64, error) {
	v, err := c.Query.Vector(clients, i)
	return append(v, make([]float64, c.checks)...), err
}

// Sum implements query.Query.
func (c checking) Sum(clients query.Clients) ([]float64, error) {
	v, err := c.Query.Sum(clients)
	return append(v, make([]float64, c.checks)...), err
}

// Unchecked returns the question without the check values of [WithChecks], and how many these are.
func Unchecked(q query.Query) (inner query.Query, checks int) {
	if c, ok := q.(checking); ok {
		return c.Query, c.checks
	}
	return q, 0
}

// Checked is the shape of a release that ends in check values: zeros of every client, so that they hold noise alone.
type Checked struct{ values, checks int }

// CheckedOf returns the shape of a release with the given number of values, if its name is the name of a [Mean] or of a
// question [WithChecks]. A number of values that the name does not allow is an error.
func CheckedOf(name string, values int) (c Checked, ok bool, err error) {
	mean, ok := parseMean(name)
	c = Checked{values, mean.Checks}
	if _, n := cutChecks(name); !ok && n > 0 {
		c.checks, ok = n, true
	}
	if ok && values-c.checks < 1 {
		return Checked{}, true, fmt.Errorf("scoring: a release of %q with %d values, of which %d are checks", name,
			values, c.checks)
	}
	return c, ok, nil
}

// Len is the number of values.
func (c Checked) Len() int { return c.values }

// Rank is the dimension of the space of all sums.
func (c Checked) Rank() int { return c.values - c.checks }

// Project returns the part of a noised sum in the space of true sums: all but the check values.
func (c Checked) Project(noised []float64) ([]float64, error) {
	if len(noised) != c.values {
		return nil, fmt.Errorf("scoring: a sum of %d values, want %d", len(noised), c.values)
	}
	inside := slices.Clone(noised)
	clear(inside[c.Rank():])
	return inside, nil
}

// CheckedName is the name of a question with a number of check values, which may be 0.
func CheckedName(name string, checks int) string {
	if checks > 0 {
		name += "+" + strconv.Itoa(checks)
	}
	return name
}

// cutChecks is the inverse of [CheckedName]. A name that it does not make has no check values.
func cutChecks(name string) (kind string, checks int) {
	kind, number, _ := strings.Cut(name, "+")
	if checks, err := strconv.Atoi(number); err == nil && CheckedName(kind, checks) == name {
		return kind, checks
	}
	return name, 0
}
