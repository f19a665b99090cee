package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"

	"popri/internal/quote"
)

// toJSON is transformers' tojson: Python's json.dumps, without escapes for HTML.
func toJSON(in *state, v Value, a args) Value {
	of, has := a.given("tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	w := jsonWriter{in: in, ascii: truth(of[0]), sorted: truth(of[3]), item: ", ", key: ": "}
	if of[1] != nil {
		w.lines, w.item = true, ","
		if s, ok := of[1].(string); ok {
			w.indent = s
		} else {
			w.indent = strings.Repeat(" ", min(1000, max(0, wholeOf("tojson", of[1]))))
		}
	}
	if has[2] && of[2] != nil {
		l, ok := of[2].(*List)
		if !ok || len(l.Items) != 2 {
			fail("separators are two texts")
		}
		w.item, w.key = textOf("separators", l.Items[0]), textOf("separators", l.Items[1])
	}
	w.write(v, 0)
	return w.String()
}

// jsonWriter writes JSON as Python's json.dumps does.
type jsonWriter struct {
	strings.Builder
	in            *state
	ascii, sorted bool
	lines         bool
	indent        string
	item, key     string // separators
}

func (w *jsonWriter) write(v Value, depth int) {
	w.in.deep(depth)
	w.in.step(1)
	from := w.Len()
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool, int64, float64:
		w.WriteString(jsonNumber(v))
	case string:
		w.text(v)
	case safe:
		w.text(string(v))
	case *Dict:
		keys := v.keys
		if w.sorted {
			keys = w.in.sorted(keys, func(v Value) Value { return v }, false)
		}
		w.list("{", "}", len(keys), depth, func(i int) {
			switch k := keys[i].(type) {
			case string:
				w.text(k)
			default:
				w.text(jsonNumber(k))
			}
			w.WriteString(w.key)
			x, _ := v.Get(keys[i])
			w.write(x, depth+1)
		})
	case *List:
		if v.kind != "" && v.kind != tupleKind {
			fail("%s is not written as JSON", typeName(v))
		}
		w.list("[", "]", len(v.Items), depth, func(i int) { w.write(v.Items[i], depth+1) })
	default:
		fail("%s is not written as JSON", typeName(v))
	}
	w.in.made(w.Len() - from)
}

func jsonNumber(v Value) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
		return floatText(v)
	}
	fail("%s is not written as JSON", typeName(v))
	return ""
}

func (w *jsonWriter) list(open, closing string, n, depth int, each func(i int)) {
	w.WriteString(open)
	for i := range n {
		if i > 0 {
			w.WriteString(w.item)
		}
		if w.lines {
			w.line(depth + 1)
		}
		each(i)
	}
	if w.lines && n > 0 {
		w.line(depth)
	}
	w.WriteString(closing)
}

func (w *jsonWriter) line(depth int) {
	w.in.made(depth * len(w.indent))
	w.WriteByte('\n')
	w.WriteString(strings.Repeat(w.indent, depth))
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (w *jsonWriter) text(s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch escaped, ok := jsonEscapes[r]; {
		case ok:
			w.WriteString(escaped)
		case r < ' ' || w.ascii && r > 0x7f && r < 0x10000:
			fmt.Fprintf(w, `\u%04x`, r)
		case w.ascii && r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04x`, high, low)
		default:
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}

// FromJSON reads a JSON value: whole numbers are int64, others float64, and the order of objects is kept.
func FromJSON(raw []byte) (Value, error) {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	v, err := decodeJSON(decoder, 0)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the JSON value")
		}
	}
	return v, quote.JSON(err)
}

func decodeJSON(d *json.Decoder, depth int) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return i, nil
		}
		if !strings.ContainsAny(t.String(), ".eE") {
			return nil, fmt.Errorf("the number %s is larger than 64 bits", t)
		}
		return t.Float64()
	case json.Delim:
		if depth > maxDepth {
			return nil, fmt.Errorf("more than %d lists and objects in each other", maxDepth)
		}
		if t == '[' {
			l := NewList()
			for d.More() {
				v, err := decodeJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err = d.Token()
			return l, err
		}
		o := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(key.(string), v)
		}
		_, err = d.Token()
		return o, err
	default:
		return t, nil // nil, bool or string
	}
}
