package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"popri/internal/bom"
	"popri/internal/parquetio"
)

// ReadPublishedJSON reads the layout of the published POPri code: a JSON file for each split, with one object that maps
// a client's ID to the list of its texts. An empty path leaves its split out. Clients keep the files' order. Errors
// name keys by their number, from 0, and quote nothing.
func ReadPublishedJSON(train, validation, test string) (*Population, error) {
	p := &Population{Name: "published layout", Unit: "a client is one key of the JSON object"}
	owner := map[string]string{}
	for _, part := range []struct {
		split Split
		path  string
	}{{Train, train}, {Validation, validation}, {Test, test}} {
		if part.path == "" {
			continue
		}
		content, err := os.ReadFile(part.path)
		if err != nil {
			return nil, fmt.Errorf("clients: %w", err)
		}
		found, err := parsePublished(content, part.split)
		if err != nil {
			return nil, fmt.Errorf("clients: %s: %w: %v", part.path, parquetio.ErrFormat, err)
		}
		for i, c := range found {
			if other, ok := owner[c.ID]; ok {
				return nil, fmt.Errorf("clients: %s: %w: key %d is a client of %s too", part.path, parquetio.ErrFormat, i, other)
			}
			owner[c.ID] = part.path
		}
		p.Clients = append(p.Clients, found...)
	}
	if len(p.Clients) == 0 {
		return nil, fmt.Errorf("clients: %w: no clients in %q, %q, %q", parquetio.ErrFormat, train, validation, test)
	}
	return p, nil
}

// parsePublished reads one object token by token, because a map would lose the order and hide duplicate keys.
func parsePublished(content []byte, split Split) ([]Client, error) {
	content = bom.Trim(content)
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("not UTF-8: %s", badBytes(string(content)))
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	if token, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", place(err))
	} else if token != json.Delim('{') {
		return nil, errors.New("it is no object of clients")
	}
	b := newBuilder()
	for decoder.More() {
		key := len(b.clients)
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", key, place(err))
		}
		id := token.(string) // a key: the decoder accepts nothing else here
		if first, ok := b.index[id]; ok {
			return nil, fmt.Errorf("key %d is the same client as key %d", key, first)
		}
		var texts []*string
		if err := decoder.Decode(&texts); err != nil {
			return nil, fmt.Errorf("key %d: %w, want a list of texts", key, place(err))
		}
		at := b.client(-1, parquetio.Cell{Value: id}, parquetio.Cell{Value: string(split)})
		if len(texts) == 0 {
			b.problem(-1, at, "the client has no texts", "the client has no texts")
		}
		for i, t := range texts {
			cell := parquetio.Cell{Null: t == nil}
			if t != nil {
				cell.Value = *t
			}
			b.text(-1, at, fmt.Sprintf("texts[%d]", i), cell, parquetio.Cell{}, parquetio.Cell{})
		}
		if len(b.problems) > 0 {
			return nil, fmt.Errorf("key %d: %v", key, b.problems[0])
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("the object does not end: %w", place(err))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the object")
	}
	return b.finish(), nil
}

// place says where JSON is wrong. The decoder's own message can quote a value.
func place(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("a value of another type ends at byte %d of what follows the key", e.Offset)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the JSON is damaged at byte %d", e.Offset)
	}
	return err
}
