package tokenizer

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// score reads a unigram score as the library tokenizers does: its parser takes the digits as one integer, converts it
// to a float64 and divides that by a power of ten (or multiplies), which is off by a bit where the nearest float64 is
// another one. Pieces whose scores differ by such a bit would be chosen otherwise.
func score(n json.Number) (float64, error) {
	text, negative := strings.CutPrefix(n.String(), "-")
	digits, power, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(strings.TrimPrefix(power, "+")); err != nil {
			return 0, fmt.Errorf("the exponent %s is out of range", power)
		}
	}
	var significand uint64
	full := false
	for i, c := range whole + fraction {
		d := uint64(c - '0')
		if full = full || significand > (math.MaxUint64-d)/10; full { // later digits only count as places
			if i < len(whole) {
				exponent++
			}
			continue
		}
		significand = 10*significand + d
		if i >= len(whole) {
			exponent--
		}
	}
	f := float64(significand)
	for f != 0 && exponent < -308 {
		f, exponent = f/1e308, exponent+308
	}
	if f != 0 && exponent < 0 {
		f /= power10(-exponent)
	} else if f != 0 {
		f *= power10(exponent)
	}
	if math.IsInf(f, 0) {
		return 0, fmt.Errorf("%s is out of range", n)
	}
	if negative {
		f = -f
	}
	return f, nil
}

// power10 returns the float64 nearest to 10^n, which math.Pow10 does not above 31; infinity above 308.
func power10(n int) float64 {
	f, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	return f
}
