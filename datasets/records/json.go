package records

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/transform"

	"popri/internal/exactjson"
)

func readLines(in *input, o Options, do func(Record) error) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for number := int64(1); ; number++ {
		in.next()
		content, err := line(r)
		if err == io.EOF {
			return nil
		}
		content = exactjson.TrimBOM(content) // where files were joined
		if err != nil {
			return &Error{position: fmt.Sprintf("line %d", number), err: err}
		}
		if len(bytes.TrimSpace(content)) == 0 {
			continue
		}
		position := Position{Unit: "line", Number: number}
		if err := object(content, o.Columns, position, do); err != nil {
			if err := o.passes(position, err); err != nil {
				return err
			}
		}
	}
}

// object reads the record, or the records of a list of texts, of one object.
func object(content []byte, columns Columns, position Position, do func(Record) error) error {
	fields, err := exactjson.Fields(content)
	if err != nil {
		if plain, _, failed := transform.Bytes(&finite{}, content); failed == nil && !bytes.Equal(plain, content) {
			fields, err = exactjson.Fields(plain)
		}
	}
	if err != nil {
		return badAt(position, "%w", unquoted(err))
	}
	names, err := columns.find(func(name string) bool { return nested(fields, name) },
		func() []string { return paths(fields, "") })
	if err != nil {
		return badAt(position, "%w", err.(*Error).err)
	}
	r := Record{Position: position, HasClient: names[client] != "", HasSplit: names[split] != ""}
	for role, cell := range []*Cell{&r.Client, &r.Split, &r.Date, &r.Label, &r.Source} {
		*cell = missing
		if raw, ok := fields[names[role]]; ok && names[role] != "" {
			if role == client && kind(raw) == "a number" {
				*cell, err = wholeNumber(raw)
			} else {
				*cell, err = scalar(raw)
			}
			if err != nil {
				return badAt(position, "%s is %w", []string{"client", "split", "date", "label", "source"}[role], err)
			}
		}
	}
	raw := fields[names[text]]
	if raw[0] == '[' {
		r.Position.List = true
		d := json.NewDecoder(bytes.NewReader(raw)) // one by one: millions of short texts cost more memory than their bytes
		d.Token()
		return elements(d, r, func() {}, do)
	}
	if k := kind(raw); k != "a text" && k != "null" {
		return badAt(position, "the text is %s, want a text", k)
	}
	if r.Text, err = scalar(raw); err != nil {
		return badAt(position, "%w", unquoted(err))
	}
	return do(r)
}

// finite makes JSON of what Python's json writes: null in place of floats that are no numbers, which JSON has not. An ID
// or a text must be something else.
type finite struct{ inside, escaped bool } // of a string

// Reset implements transform.Transformer.
func (f *finite) Reset() { *f = finite{} }

// Transform implements transform.Transformer.
func (f *finite) Transform(out, in []byte, atEnd bool) (written, read int, err error) {
	for ; read < len(in); read++ {
		b := in[read]
		if !f.inside && (b == 'N' || b == 'I' || b == '-') {
			length, more := notNumber(in[read:])
			switch {
			case more && !atEnd:
				return written, read, transform.ErrShortSrc
			case length > 0 && len(out)-written < len("null"):
				return written, read, transform.ErrShortDst
			case length > 0:
				written += copy(out[written:], "null")
				read += length - 1
				continue
			}
		}
		if written == len(out) {
			return written, read, transform.ErrShortDst
		}
		switch {
		case f.escaped:
			f.escaped = false
		case f.inside && b == '\\':
			f.escaped = true
		case b == '"':
			f.inside = !f.inside
		}
		out[written] = b
		written++
	}
	return written, read, nil
}

// notNumber is the length of a float that is no number at the beginning of b, or 0. more says that b ends inside one.
func notNumber(b []byte) (length int, more bool) {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		switch {
		case bytes.HasPrefix(b, []byte(word)):
			return len(word), false
		case len(b) < len(word) && word[:len(b)] == string(b):
			return 0, true
		}
	}
	return 0, false
}

// elements reads the texts of a list up to its end. An empty list has one text, which is missing.
func elements(d *json.Decoder, r Record, next func(), do func(Record) error) error {
	for ; d.More(); r.Position.Text++ {
		next()
		var raw json.RawMessage
		err := d.Decode(&raw)
		if err == nil && kind(raw) != "a text" && kind(raw) != "null" {
			err = fmt.Errorf("it is %s, want a text", kind(raw))
		}
		if err == nil {
			r.Text, err = scalar(raw)
		}
		if err != nil {
			return badAt(r.Position, "%w", unquoted(err))
		}
		if err := do(r); err != nil {
			return err
		}
	}
	if r.Position.Text == 0 {
		r.Text = missing
		return do(r)
	}
	return nil
}

// nested reports whether there is a field of this name, or of this path through objects, whose value it then adds under
// the path. Nothing is null's field but null.
func nested(fields map[string]json.RawMessage, name string) bool {
	if _, ok := fields[name]; ok {
		return true
	}
	for at := range len(name) {
		if name[at] != '.' {
			continue
		}
		raw, ok := fields[name[:at]]
		if !ok {
			continue
		}
		if kind(raw) == "null" {
			fields[name] = raw
			return true
		}
		inner, err := exactjson.Fields(raw)
		if err == nil && nested(inner, name[at+1:]) {
			fields[name] = inner[name[at+1:]]
			return true
		}
	}
	return false
}

// paths lists the names of fields; fields of inner objects by their paths.
func paths(fields map[string]json.RawMessage, prefix string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		inner, err := exactjson.Fields(fields[name])
		if err != nil || len(inner) == 0 || strings.Count(prefix, ".") == 3 {
			names = append(names, prefix+name)
			continue
		}
		names = append(names, paths(inner, prefix+name+".")...)
	}
	return names
}

// wholeNumber returns a client's ID in one spelling: 1 and 1.0 would be two clients, and divide the unit of privacy.
func wholeNumber(raw json.RawMessage) (Cell, error) {
	if !bytes.ContainsAny(raw, ".eE") && string(raw) != "-0" {
		return Cell{Value: string(raw)}, nil
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return Cell{}, errors.New("a number that is not whole or has more digits than are exact, want a whole number or a text")
	}
	return Cell{Value: strconv.FormatInt(int64(x), 10)}, nil
}

// scalar returns a text, number or truth value as it stands.
func scalar(raw json.RawMessage) (Cell, error) {
	switch raw[0] {
	case '"':
		if err := exactjson.CheckSurrogates(raw); err != nil {
			return Cell{}, err
		}
		var s string
		err := json.Unmarshal(raw, &s)
		return Cell{Value: s}, err
	case 'n':
		return missing, nil
	case '[', '{':
		return Cell{}, fmt.Errorf("%s, want a text", kind(raw))
	}
	return Cell{Value: string(raw)}, nil
}

// kind names the type of a value, with its article.
func kind(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a text"
	case '[':
		return "a list"
	case '{':
		return "an object"
	case 't', 'f':
		return "a truth value"
	case 'n':
		return "null"
	}
	return "a number"
}

// unquoted takes what the decoder quotes out of its errors.
func unquoted(err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		if strings.Contains(e.Error(), "max depth") {
			return errors.New("the JSON is nested more than 10000 deep")
		}
		return fmt.Errorf("the JSON is damaged at byte %d", e.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the JSON ends too early")
	}
	return err
}

// readJSON reads one value token by token: a map would lose the order of clients and hide those that stand twice.
func readJSON(in *input, o Options, do func(Record) error) error {
	d := json.NewDecoder(transform.NewReader(in, &finite{}))
	token, err := d.Token()
	if err != nil {
		return bad("not JSON: %w", unquoted(err))
	}
	switch token {
	case json.Delim('{'):
		err = readClients(in, d, do)
	case json.Delim('['):
		err = readList(in, d, o, do)
	default:
		return bad("it is neither an object of clients nor a list of texts")
	}
	if err != nil {
		return err
	}
	if _, err := d.Token(); err != nil {
		return bad("it does not end: %w", unquoted(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("something follows the value")
	}
	return nil
}

// readClients reads an object that maps a client to the list of its texts.
func readClients(in *input, d *json.Decoder, do func(Record) error) error {
	seen := map[string]int64{}
	for key := int64(0); d.More(); key++ {
		position := Position{Unit: "key", Number: key}
		in.next()
		token, err := d.Token()
		if err != nil {
			return badAt(position, "%w", unquoted(err))
		}
		id := token.(string) // a key: the decoder accepts nothing else here
		if strings.ContainsRune(id, utf8.RuneError) {
			return badAt(position, "the client's name holds U+FFFD or half of a surrogate pair: it is damaged")
		}
		if first, twice := seen[id]; twice {
			return badAt(position, "it is the same client as key %d", first)
		}
		seen[id] = key
		if token, err = d.Token(); err != nil {
			return badAt(position, "%w", unquoted(err))
		} else if token != json.Delim('[') {
			return badAt(position, "its value is no list: want a list of texts")
		}
		r := Record{Position: position, Client: Cell{Value: id}, Split: missing, Date: missing, Label: missing,
			Source: missing, HasClient: true}
		r.Position.List = true
		if !d.More() {
			return badAt(position, "the client has no texts")
		}
		if err := elements(d, r, in.next, do); err != nil {
			return err
		}
		if _, err := d.Token(); err != nil {
			return badAt(position, "the list does not end: %w", unquoted(err))
		}
	}
	return nil
}

// readList reads a list of texts, which names no clients, or of objects.
func readList(in *input, d *json.Decoder, o Options, do func(Record) error) error {
	for entry := int64(0); d.More(); entry++ {
		position := Position{Unit: "entry", Number: entry}
		in.next()
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return badAt(position, "%w", unquoted(err))
		}
		if err := entryOf(raw, o.Columns, position, do); err != nil {
			if err := o.passes(position, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func entryOf(raw json.RawMessage, columns Columns, position Position, do func(Record) error) error {
	if raw[0] == '{' {
		return object(raw, columns, position, do)
	}
	if k := kind(raw); k != "a text" && k != "null" {
		return badAt(position, "it is %s, want a text or an object", k)
	}
	cell, err := scalar(raw)
	if err != nil {
		return badAt(position, "%w", unquoted(err))
	}
	return do(Record{Position: position, Client: missing, Split: missing, Date: missing, Label: missing, Source: missing,
		Text: cell})
}

var (
	unseen = regexp.MustCompile(`(?is)<!--.*?(-->|$)|<script\b.*?(</script\s*>|$)|<style\b.*?(</style\s*>|$)|` +
		`<template\b.*?(</template\s*>|$)|<title\b.*?(</title\s*>|$)`)
	blocks = regexp.MustCompile(`(?is)</?(address|article|aside|blockquote|body|br|dd|div|dl|dt|figure|footer|h[1-6]|header|hr|li|main|nav|ol|` +
		`p|pre|section|table|td|th|tr|ul)\b[^>]*>`)
	tags = regexp.MustCompile(`(?s)</?[a-zA-Z][^>]*>|<[!?][^>]*>`)
)

// PlainText returns what a page of HTML shows: without tags, scripts, styles, comments and its title, entities as
// characters, a blank line where a block begins or ends.
func PlainText(page string) string {
	page = unseen.ReplaceAllString(page, " ")
	page = blocks.ReplaceAllString(page, "\n\n")
	return html.UnescapeString(tags.ReplaceAllString(page, ""))
}
