package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// interval is the values that a number may have, written as in mathematics: [1, 2^30], (0, 1].
type interval struct {
	low, high     float64
	noLow, noHigh bool // the bound itself is outside
}

// newInterval reads the tag of a field. A tag that is none is the programmer's mistake.
func newInterval(text string) *interval {
	low, high, _ := strings.Cut(strings.Trim(text, "[(])"), ", ")
	return &interval{bound(low), bound(high), strings.HasPrefix(text, "("), strings.HasSuffix(text, ")")}
}

func bound(text string) float64 {
	if power, ok := strings.CutPrefix(text, "2^"); ok {
		return math.Exp2(bound(power))
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// has reports whether a value is within, which NaN is not.
func (i *interval) has(v float64) bool {
	return v >= i.low && v <= i.high && !(i.noLow && v == i.low) && !(i.noHigh && v == i.high)
}

// String says which values are within.
func (i *interval) String() string {
	low, high := number(i.low), number(i.high)
	switch {
	case !i.noLow && !i.noHigh:
		return fmt.Sprintf("%s to %s", low, high)
	case !i.noLow:
		return fmt.Sprintf("at least %s and below %s", low, high)
	case !i.noHigh:
		return fmt.Sprintf("above %s and at most %s", low, high)
	}
	return fmt.Sprintf("above %s and below %s", low, high)
}

// number is a bound, a whole one with all its digits.
func number(v float64) string {
	if v == math.Trunc(v) && v < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
