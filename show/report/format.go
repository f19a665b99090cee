package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"popri/accountant"
	"popri/internal/numeric"
)

const (
	missing   = "–"
	thinSpace = "\u202f"
	minusSign = "−"
)

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (i *Interval) finite() bool { return i != nil && finite(i[0]) && finite(i[1]) }

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

// percent writes a fraction in per cent.
func percent(v float64, decimals int) string {
	if !finite(v) {
		return missing
	}
	return fixed(v*100, decimals) + thinSpace + "%"
}

// interval writes "20.1 – 21.3" with the values in hundredths.
func interval(i *Interval, decimals int, factor float64) string {
	if !i.finite() {
		return ""
	}
	return fixed(i[0]*factor, decimals) + " – " + fixed(i[1]*factor, decimals)
}

// count writes a whole number; one of five digits or more has a thin space between groups of three.
func count(n int) string {
	text := grouped(strconv.Itoa(max(n, -n)))
	if n < 0 {
		return minusSign + text
	}
	return text
}

func grouped(digits string) string {
	if len(digits) < 5 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + thinSpace + digits[i:]
	}
	return digits
}

// inProse finds numbers with a sign or with five digits or more that stand by themselves.
var inProse = regexp.MustCompile(`(^|[\s(“=])(-\d[\d.]*|\d{5,})\b`)

// Readable writes the numbers of a sentence as the pages do: with a real minus sign, and in groups of three digits.
func Readable(text string) string {
	return inProse.ReplaceAllStringFunc(text, func(found string) string {
		m := inProse.FindStringSubmatch(found)
		sign, number := "", m[2]
		if rest, negative := strings.CutPrefix(number, "-"); negative {
			sign, number = minusSign, rest
		}
		whole, fraction, decimal := strings.Cut(number, ".")
		if decimal {
			fraction = "." + fraction
		}
		return m[1] + sign + grouped(whole) + fraction
	})
}

// readable makes all sentences and names of a report readable.
func (r *Report) readable() {
	list := func(texts []string) []string { return numeric.Map(texts, Readable) }
	r.Subtitle, r.Verdict, r.Product = Readable(r.Subtitle), Readable(r.Verdict), Readable(r.Product)
	r.SmallModel = list(r.SmallModel)
	r.Notes, r.Privacy.Statement, r.Privacy.Warnings = list(r.Notes), list(r.Privacy.Statement),
		list(r.Privacy.Warnings)
	r.Privacy.Spending, r.Privacy.Unit = Readable(r.Privacy.Spending), Readable(r.Privacy.Unit)
	r.Results, r.Samples.Columns = slices.Clone(r.Results), slices.Clone(r.Samples.Columns)
	for i := range r.Results {
		r.Results[i].Name, r.Results[i].Note = Readable(r.Results[i].Name), Readable(r.Results[i].Note)
	}
	for i := range r.Samples.Columns {
		r.Samples.Columns[i].Note = Readable(r.Samples.Columns[i].Note)
	}
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
