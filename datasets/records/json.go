package records

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"popri/internal/jsonobject"
	"popri/internal/quote"
)

func readLines(in *input, columns Columns, do func(Record) error) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for number := int64(1); ; number++ {
		in.next()
		content, err := line(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &Error{place: fmt.Sprintf("line %d", number), err: err}
		}
		if len(bytes.TrimSpace(content)) == 0 {
			continue
		}
		if err := object(content, columns, Place{Unit: "line", Number: number}, do); err != nil {
			return err
		}
	}
}

// object reads the record, or the records of a list of texts, of one object.
func object(content []byte, columns Columns, place Place, do func(Record) error) error {
	fields, err := jsonobject.Fields(content)
	if err != nil {
		return badPlace(place, "%w", unquoted(err))
	}
	names, err := columns.find(func(name string) bool { _, ok := fields[name]; return ok })
	if err != nil {
		return badPlace(place, "%w", err.(*Error).err)
	}
	r := Record{Place: place, HasClient: names[client] != "", HasSplit: names[split] != ""}
	for role, cell := range []*Cell{&r.Client, &r.Split, &r.Date, &r.Label} {
		*cell = missing
		if raw, ok := fields[names[role]]; ok && names[role] != "" {
			if *cell, err = scalar(raw); err != nil {
				return badPlace(place, "%s is %w", []string{"client", "split", "date", "label"}[role], err)
			}
		}
	}
	for _, name := range columns.Others {
		cell, err := scalar(fields[name])
		if err != nil {
			return badPlace(place, "column %s is %w", quote.Text(name), err)
		}
		r.Others = append(r.Others, cell)
	}
	raw := fields[names[text]]
	var texts []*string
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &texts); err != nil {
			return badPlace(place, "the texts are no list of texts")
		}
		r.Place.List = true
		if len(texts) == 0 {
			texts = []*string{nil}
		}
	} else {
		var one *string
		if err := json.Unmarshal(raw, &one); err != nil {
			return badPlace(place, "the text is a %s, want a text", kind(raw))
		}
		texts = []*string{one}
	}
	for i, t := range texts {
		r.Place.Text, r.Text = i, cellOf(t)
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

func cellOf(s *string) Cell {
	if s == nil {
		return missing
	}
	return Cell{Value: *s}
}

// scalar returns a text, number or truth value as it stands.
func scalar(raw json.RawMessage) (Cell, error) {
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return Cell{Value: s}, err
	case 'n':
		return missing, nil
	case '[', '{':
		return Cell{}, fmt.Errorf("a %s, want a text", kind(raw))
	}
	return Cell{Value: string(raw)}, nil
}

// kind names the type of a value.
func kind(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "text"
	case '[':
		return "list"
	case '{':
		return "object"
	case 't', 'f':
		return "truth value"
	case 'n':
		return "null"
	}
	return "number"
}

// unquoted takes what the decoder quotes out of its errors.
func unquoted(err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the JSON is damaged at byte %d", e.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the JSON ends too early")
	}
	return err
}

// readJSON reads one value token by token: a map would lose the order of clients and hide those that stand twice.
func readJSON(in *input, columns Columns, do func(Record) error) error {
	d := json.NewDecoder(in)
	token, err := d.Token()
	if err != nil {
		return bad("not JSON: %w", unquoted(err))
	}
	switch token {
	case json.Delim('{'):
		err = readClients(in, d, do)
	case json.Delim('['):
		err = readList(in, d, columns, do)
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
		place := Place{Unit: "key", Number: key}
		in.next()
		token, err := d.Token()
		if err != nil {
			return badPlace(place, "%w", unquoted(err))
		}
		id := token.(string) // a key: the decoder accepts nothing else here
		if first, twice := seen[id]; twice {
			return badPlace(place, "it is the same client as key %d", first)
		}
		seen[id] = key
		if token, err = d.Token(); err != nil {
			return badPlace(place, "%w", unquoted(err))
		} else if token != json.Delim('[') {
			return badPlace(place, "its value is no list: want a list of texts")
		}
		r := Record{Place: place, Client: Cell{Value: id}, Split: missing, Date: missing, Label: missing, HasClient: true}
		r.Place.List = true
		for ; d.More(); r.Place.Text++ {
			in.next()
			if r.Text, err = element(d); err != nil {
				return badPlace(r.Place, "%w, want a list of texts", unquoted(err))
			}
			if err := do(r); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return badPlace(place, "the list does not end: %w", unquoted(err))
		}
		if r.Place.Text == 0 {
			return badPlace(place, "the client has no texts")
		}
	}
	return nil
}

func element(d *json.Decoder) (Cell, error) {
	var t *string
	err := d.Decode(&t)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		err = errors.New("it is no text")
	}
	return cellOf(t), err
}

// readList reads a list of texts, which names no clients, or of objects.
func readList(in *input, d *json.Decoder, columns Columns, do func(Record) error) error {
	for entry := int64(0); d.More(); entry++ {
		place := Place{Unit: "entry", Number: entry}
		in.next()
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return badPlace(place, "%w", unquoted(err))
		}
		if raw[0] == '{' {
			if err := object(raw, columns, place, do); err != nil {
				return err
			}
			continue
		}
		if raw[0] != '"' && raw[0] != 'n' {
			return badPlace(place, "it is a %s, want a text or an object", kind(raw))
		}
		cell, err := scalar(raw)
		if err != nil {
			return badPlace(place, "%w", unquoted(err))
		}
		if err := do(Record{Place: place, Client: missing, Split: missing, Date: missing, Label: missing, Text: cell}); err != nil {
			return err
		}
	}
	return nil
}
