package clients

import (
	"net/mail"
	"strconv"
	"strings"
	"time"
	"unicode"

	"popri/internal/fault"
)

// dateParts are the parts of a date format, longer ones before those that they begin with, and what package time calls
// them.
var dateParts = []string{"YYYY", "2006", "YY", "06", "MONTH", "January", "MON", "Jan", "MM", "1", "DD", "2", "hh", "15",
	"mm", "04", "ss", "05"}

// dateLayout returns package time's layout of a date format such as DD/MM/YYYY or YYYY.MM.DD hh:mm.
func dateLayout(format string) (string, error) {
	rest := format
	for i := 0; i < len(dateParts); i += 2 {
		rest = strings.ReplaceAll(rest, dateParts[i], "")
	}
	if format != "" && (!strings.Contains(format, "YY") || strings.ContainsFunc(rest, func(r rune) bool {
		return r != 'T' && (unicode.IsLetter(r) || unicode.IsDigit(r))
	})) {
		return "", fault.Userf("the date format is %q, want YYYY or YY, MM, MON (Jan) or MONTH, DD, hh, mm, ss and "+
			"signs between them, as in DD/MM/YYYY", format)
	}
	return strings.NewReplacer(dateParts...).Replace(format), nil
}

// dateOf returns the day of a date in the layout, if one is given. Otherwise it knows the usual forms of ISO 8601:
// YYYY-MM-DD, YYYYMMDD, or a year or a month, which stand for their first day; with a time with or without seconds and
// an offset, whose day is the one that is written; and the form of letters (RFC 2822). Nine digits or more are seconds
// since 1970, twelve or more milliseconds, unless they are digits of a date and a time (YYYYMMDDhhmm, with or without ss); their
// day is the day in UTC.
func dateOf(s, layout string) (string, bool) {
	if s == "" || layout == "" && validDate(s) {
		return s, true
	}
	s = strings.TrimSpace(s)
	if layout != "" {
		return parseDay(s, layout)
	}
	for _, compact := range []string{"20060102150405", "200601021504"} {
		if day, ok := parseDay(s, compact); ok && len(s) == len(compact) && day >= "1900" && day < "2100" {
			return day, true
		}
	}
	if whole, _, _ := strings.Cut(s, "."); len(whole) >= 9 && len(whole) <= 14 {
		if n, err := strconv.ParseInt(whole, 10, 64); err == nil && n > 0 {
			if len(whole) >= 12 {
				n /= 1000
			}
			return time.Unix(n, 0).UTC().Format(time.DateOnly), true
		}
	}
	iso := s
	if len(s) > 10 && s[10] == ' ' {
		iso = s[:10] + "T" + s[11:]
	}
	iso = strings.NewReplacer(" UTC", "Z", " GMT", "Z", " +", "+", " -", "-").Replace(iso)
	for _, layout := range []string{"20060102", "2006-01", "2006", "2006-01-02T15:04:05", "2006-01-02T15:04",
		"20060102T150405Z0700", "20060102T150405"} {
		for _, zone := range []string{"", "Z07:00", "Z0700", "Z07"} {
			if day, ok := parseDay(iso, layout+zone); ok {
				return day, true
			}
			if !strings.Contains(layout, ":") {
				break
			}
		}
	}
	t, err := mail.ParseDate(s) // last, for it tries many layouts
	return t.Format(time.DateOnly), err == nil
}

func parseDay(s, layout string) (string, bool) {
	t, err := time.Parse(layout, s)
	return t.Format(time.DateOnly), err == nil
}
