// Package quote puts values into messages: values of files cut to a length that fits a terminal line, and numbers with
// their nouns.
package quote

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostShown is the length in characters above which values are cut.
const mostShown = 80

// Text quotes a text as Go does. A text of more than mostShown characters is cut, and its length stands behind it.
func Text(s string) string {
	head, cut := cut(s)
	if !cut {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(head), len(s))
}

// Raw returns a value as it stands in a file, cut in the same way. Line breaks become spaces.
func Raw[T ~string | ~[]byte](value T) string {
	s := strings.ToValidUTF8(strings.Join(strings.Fields(string(value)), " "), "\uFFFD")
	head, cut := cut(s)
	if !cut {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", head, len(value))
}

// Errorf is fmt.Errorf, except that texts for %q are cut as by [Text], also in lists.
func Errorf(format string, args ...any) error { return fmt.Errorf(format, values(args)...) }

// Sprintf is fmt.Sprintf, except that texts for %q are cut as by [Text], also in lists.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, values(args)...) }

// JSON cuts the numbers and field names that the decoder of JSON quotes in an error.
func JSON(err error) error {
	const unknown = "json: unknown field "
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		cut := *e
		cut.Value = Raw(e.Value)
		return &cut
	}
	if err != nil && strings.HasPrefix(err.Error(), unknown) {
		return errors.New(unknown + Raw(strings.TrimPrefix(err.Error(), unknown)))
	}
	return err
}

// values returns arguments of fmt with texts as [value].
func values(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := reflect.ValueOf(arg); {
		case v.Kind() == reflect.String:
			out[i] = value(v.String())
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
			list := make([]value, v.Len())
			for j := range list {
				list[j] = value(v.Index(j).String())
			}
			out[i] = list
		default:
			out[i] = arg
		}
	}
	return out
}

// value is a text that %q shows cut.
type value string

// Format implements [fmt.Formatter].
func (v value) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		fmt.Fprint(f, Text(string(v)))
		return
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), string(v))
}

// List joins texts with commas and cuts the list after the given number of entries.
func List(texts []string, most int) string {
	shown := make([]string, 0, min(len(texts), most))
	for _, t := range texts[:min(len(texts), most)] {
		shown = append(shown, Raw(t))
	}
	joined := strings.Join(shown, ", ")
	if more := len(texts) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", joined, more)
	}
	return joined
}

func cut(s string) (string, bool) {
	if len(s) <= mostShown {
		return s, false
	}
	at, n := 0, 0
	for at < len(s) && n < mostShown {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
		n++
	}
	return s[:at], at < len(s)
}

// Count is a number with its noun: "1 round", "2 rounds". many is the noun's plural; "" adds an s.
func Count(n int, one, many string) string { return fmt.Sprintf("%d %s", n, Plural(n, one, many)) }

// Plural is the word that goes with a number: one with 1, and many, or one with an s, with any other.
func Plural(n int, one, many string) string {
	switch {
	case n == 1:
		return one
	case many == "":
		return one + "s"
	}
	return many
}
