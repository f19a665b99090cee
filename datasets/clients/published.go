package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"popri/internal/parquetio"
)

// ReadPublishedJSON reads the layout of the published POPri code: a JSON file for each split, one object that maps a
// client's ID to the list of its texts. An empty path leaves its split out. Clients keep the files' order.
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
		for _, c := range found {
			if other, ok := owner[c.ID]; ok {
				return nil, fmt.Errorf("clients: %s: %w: client %q is in %s too", part.path, parquetio.ErrFormat, c.ID, other)
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

// parsePublished reads one object token by token, since a map would lose the order and hide keys that come twice.
func parsePublished(content []byte, split Split) ([]Client, error) {
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("not UTF-8: %s", badBytes(string(content)))
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	if token, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %v", err)
	} else if token != json.Delim('{') {
		return nil, fmt.Errorf("it starts with %q, want an object of clients", fmt.Sprint(token))
	}
	b := newBuilder()
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		id := token.(string) // a key: the decoder lets nothing else through
		if _, ok := b.index[id]; ok {
			return nil, fmt.Errorf("client %q is there twice", id)
		}
		var texts []*string
		if err := decoder.Decode(&texts); err != nil {
			return nil, fmt.Errorf("client %q: %v, want a list of texts", id, err)
		}
		at := b.client(-1, parquetio.Cell{Value: id}, parquetio.Cell{Value: string(split)})
		if len(texts) == 0 {
			b.problem(-1, id, "the client has no texts")
		}
		for i, t := range texts {
			cell := parquetio.Cell{Null: t == nil}
			if t != nil {
				cell.Value = *t
			}
			b.text(-1, at, fmt.Sprintf("texts[%d]", i), cell, parquetio.Cell{}, parquetio.Cell{})
		}
		if len(b.problems) > 0 {
			return nil, fmt.Errorf("%v", b.problems[0])
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("the object does not end: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the object")
	}
	return b.finish(), nil
}
