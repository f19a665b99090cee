// Package exactjson reads one JSON object without silent changes: encoding/json keeps the last of two equal names,
// accepts names in any case, and puts U+FFFD for bytes that are not UTF-8 and for half a surrogate pair. It also writes
// infinite numbers, which JSON lacks, and removes byte-order marks.
package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"popri/internal/quote"
)

// mostFields bounds the fields of an object, which cost more memory than their bytes.
const mostFields = 1 << 16

// Fields returns the fields of an object. Ill-formed UTF-8, half a surrogate pair, a duplicate name, more than 65536
// fields and anything after the object are errors.
func Fields(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8: " + IllFormed(string(raw)))
	}
	if err := CheckSurrogates(raw); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	err := Members(raw, func(name string, value json.RawMessage) error {
		if _, twice := fields[name]; twice {
			return quote.Errorf("%q stands twice", name)
		}
		if len(fields) == mostFields {
			return fmt.Errorf("it has more than %d fields", mostFields)
		}
		fields[name] = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fields, nil
}

// Members calls visit with each field of an object in their order, which may have equal names. Anything after the
// object is an error.
func Members(raw []byte, visit func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	token, err := d.Token()
	if err == io.EOF {
		err = errors.New("unexpected end of JSON input")
	}
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		return errors.New("it is no JSON object")
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name := token.(string) // a name: the decoder accepts nothing else here
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the object does not end: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

// IllFormed says where the first byte of a text is that is not UTF-8; "" if there is none.
func IllFormed(s string) string {
	for i := range s {
		if r, size := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("byte %d of %d is ill-formed", i, len(s))
		}
	}
	return ""
}

// CheckSurrogates refuses an escape of JSON from \ud800 to \udfff that is no half of a pair.
func CheckSurrogates(raw []byte) error {
	for at := 0; ; {
		next := bytes.IndexByte(raw[at:], '\\')
		if next < 0 {
			return nil
		}
		at += next
		switch r := escaped(raw[at:]); {
		case !utf16.IsSurrogate(r):
			at = min(at+2, len(raw)) // an escaped backslash begins no escape
		case utf16.DecodeRune(r, escaped(raw[at+6:])) == utf8.RuneError:
			return fmt.Errorf("the escape at byte %d is half of a surrogate pair: it is no character", at)
		default:
			at += 12
		}
	}
}

// escaped returns the code of an escape \uXXXX that raw begins with, or 0.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0
	}
	code, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(code)
}

// Float is a float64 that becomes the string "inf" in JSON if it is +Inf.
type Float float64

// MarshalJSON writes a number, or "inf". NaN and -Inf are errors.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads a number, or "inf".
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` {
		*f = Float(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(f))
}

var mark = []byte("\ufeff")

// TrimBOM returns content without the byte-order mark that some editors put before a UTF-8 text. It does not copy.
func TrimBOM(content []byte) []byte { return bytes.TrimPrefix(content, mark) }
