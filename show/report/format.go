package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"popri/accountant"
)

const (
	missing   = "–"
	thinSpace = "\u202f"
	minusSign = "−"
)

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// value returns the value of a pointer, NaN for nil.
func value(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// fixed writes a number with a fixed count of decimals and a real minus sign.
func fixed(v float64, decimals int) string {
	if !finite(v) {
		return missing
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	return strings.Replace(text, "-", minusSign, 1)
}

// significant writes a number with the given number of significant digits, without trailing zeros, and as a power of
// ten if that is shorter: 0.0001 is 10⁻⁴.
func significant(v float64, digits int) string {
	if !finite(v) {
		if math.IsInf(v, 1) {
			return "∞"
		}
		return missing
	}
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e6) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', digits-1, 64), "e")
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		n, _ := strconv.Atoi(exponent)
		power := "10" + superscript(n)
		if mantissa == "1" {
			return power
		}
		return strings.Replace(mantissa, "-", minusSign, 1) + thinSpace + "·" + thinSpace + power
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if math.Abs(rounded) >= 1e4 {
		return count(int(rounded))
	}
	return strings.Replace(strconv.FormatFloat(rounded, 'f', -1, 64), "-", minusSign, 1)
}

// roundedUp writes an upper bound with the given number of significant digits, rounded up.
func roundedUp(v float64, digits int) string {
	if math.IsInf(v, 1) {
		return "∞"
	}
	text := accountant.RoundUp(v, digits)
	rounded, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return significant(rounded, digits)
}

func superscript(n int) string {
	return strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶",
		"7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
}

// percent writes a share in per cent.
func percent(v float64, decimals int) string {
	if !finite(v) {
		return missing
	}
	return fixed(v*100, decimals) + thinSpace + "%"
}

// interval writes "20.1 – 21.3" with the values in hundredths.
func interval(i *Interval, decimals int, factor float64) string {
	if i == nil || !finite(i.Low) || !finite(i.High) {
		return ""
	}
	return fixed(i.Low*factor, decimals) + " – " + fixed(i.High*factor, decimals)
}

// count writes a whole number in groups of three digits.
func count(n int) string {
	text := strconv.Itoa(max(n, -n))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + thinSpace + text[i:]
	}
	if n < 0 {
		return minusSign + text
	}
	return text
}

// Duration writes seconds for people.
func Duration(seconds float64) string {
	switch {
	case !finite(seconds) || seconds < 0:
		return missing
	case seconds < 10:
		return fixed(seconds, 1) + thinSpace + "s"
	case seconds < 90:
		return fixed(seconds, 0) + thinSpace + "s"
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d%smin %02d%ss", int(d.Minutes()), thinSpace, int(d.Seconds())%60, thinSpace)
	}
	return fmt.Sprintf("%d%sh %02d%smin", int(d.Hours()), thinSpace, int(d.Minutes())%60, thinSpace)
}
