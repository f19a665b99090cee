package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

func toInt(in *state, v Value, a args) Value {
	of, has := a.given("int", "default", "base")
	if !has[0] {
		of[0] = int64(0)
	}
	base := 10
	if has[1] {
		base = wholeOf("int", of[1])
	}
	switch x := plain(v).(type) {
	case undefined:
		fail("%s is undefined", x.what)
	case bool:
		return integerOf(x)
	case int64:
		return x
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return of[0]
		}
		if math.Abs(x) < 1<<62 {
			return int64(x)
		}
		fail("the number %v is larger than 64 bits", x)
	case string:
		s := numeral(x)
		if base != 10 {
			fail("int with the base %d is not supported", base)
		}
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i
		}
		if f, ok := parseFloat(s); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return toInt(in, f, args{nil, NewDict()})
		}
	}
	return of[0]
}

// numeral is a text that the filter int reads as a number. Python reads more than Go: digits of other scripts, and
// underscores.
func numeral(s string) string {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsFunc(s, func(r rune) bool { return r == '_' || r >= 0x80 && unicode.IsDigit(r) }) {
		fail("int of %q is not supported", s)
	}
	return s
}

// parseFloat reads a number as Python's float does.
func parseFloat(s string) (float64, bool) {
	if strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}
