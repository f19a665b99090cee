// Package jsonobject reads one JSON object without silent changes: encoding/json keeps the last of two equal names,
// accepts names in any case, and puts U+FFFD for bytes that are not UTF-8.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"popri/internal/quote"
)

// Fields returns the fields of an object. Ill-formed UTF-8, a duplicate name and anything after the object are errors.
func Fields(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("not UTF-8: byte %d of %d is ill-formed", illFormed(raw), len(raw))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	token, err := d.Token()
	if err == io.EOF {
		err = errors.New("unexpected end of JSON input")
	}
	if err != nil {
		return nil, err
	}
	if token != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // a name: the decoder accepts nothing else here
		if _, twice := fields[name]; twice {
			return nil, quote.Errorf("%q stands twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("the object does not end: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return fields, nil
}

// illFormed returns the index of the first byte that is not UTF-8.
func illFormed(raw []byte) int {
	for at := 0; at < len(raw); {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return len(raw)
}
