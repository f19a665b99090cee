package accountant

import (
	"math"
	"strconv"
	"strings"
)

// RoundUp shows v with the given number of significant digits (1 to 15), and never less than v: an upper bound, such as
// ε, stays one when it is printed.
func RoundUp(v float64, digits int) string { return directed(v, digits, +1) }

// RoundDown shows v with the given number of significant digits (1 to 15), and never more than v, for lower bounds.
func RoundDown(v float64, digits int) string { return directed(v, digits, -1) }

// directed rounds to nearest and, where that went in the wrong direction, moves the last digit by one.
func directed(v float64, digits, direction int) string {
	nearest := strconv.FormatFloat(v, 'e', digits-1, 64)
	shown, err := strconv.ParseFloat(nearest, 64)
	if err != nil || v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	if direction > 0 && shown < v || direction < 0 && shown > v {
		mantissa, exponent, _ := strings.Cut(nearest, "e")
		whole, errWhole := strconv.Atoi(strings.Replace(mantissa, ".", "", 1))
		power, errPower := strconv.Atoi(exponent)
		if errWhole != nil || errPower != nil {
			panic("accountant: strconv wrote " + nearest) // a bug
		}
		power -= digits - 1
		// Below a power of ten, numbers are closer together.
		if next := whole + direction; len(strconv.Itoa(max(next, -next))) < digits {
			whole, power = 10*whole, power-1
		}
		moved := strconv.Itoa(whole+direction) + "e" + strconv.Itoa(power)
		if shown, err = strconv.ParseFloat(moved, 64); err != nil {
			return moved // past the largest number
		}
	}
	text := strconv.FormatFloat(shown, 'g', digits, 64)
	if !strings.ContainsAny(text, ".") || strings.Contains(text, "e") {
		return text
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
