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
	defined(v)
	switch x := plain(v).(type) {
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
		s := numeral("int", x)
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

// numeral is a text that a filter reads as a number. Python reads more than Go: digits of other scripts, and underscores.
func numeral(filter, s string) string {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsFunc(s, func(r rune) bool { return r == '_' || r >= 0x80 && unicode.IsDigit(r) }) {
		fail("%s of %q is not supported", filter, s)
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

func toFloat(_ *state, v Value, a args) Value {
	of, has := a.given("float", "default")
	if !has[0] {
		of[0] = 0.0
	}
	if s, ok := plain(v).(string); ok {
		if f, ok := parseFloat(numeral("float", s)); ok {
			return f
		}
		return of[0]
	}
	if _, f, _, ok := number(v); ok {
		return f
	}
	defined(v)
	return of[0]
}

func round(_ *state, v Value, a args) Value {
	of, has := a.given("round", "precision", "method")
	digits, method := 0, "common"
	if has[0] {
		digits = wholeOf("round", of[0])
	}
	if has[1] {
		method = textOf("round", of[1])
	}
	_, f, whole, ok := number(v)
	switch {
	case !ok:
		fail("%s cannot be rounded", typeName(v))
	case digits < 0 || digits > 100 || math.IsNaN(f) || math.IsInf(f, 0):
		fail("round of %v to %d digits is not supported", v, digits)
	case method == "common" && whole:
		return signed("+", v)
	case method == "common":
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return r
	case method == "ceil" || method == "floor":
		by := math.Pow(10, float64(digits))
		if method == "ceil" {
			return math.Ceil(f*by) / by
		}
		return math.Floor(f*by) / by
	}
	fail("round has the methods common, ceil and floor, not %q", method)
	return nil
}
