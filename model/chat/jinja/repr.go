package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str.
func (in *state) str(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case safe:
		return string(v)
	case undefined:
		return ""
	}
	var b strings.Builder
	in.repr(&b, v, 0)
	return b.String()
}

// repr writes a value as Python's repr does.
func (in *state) repr(b *strings.Builder, v Value, depth int) {
	in.deep(depth)
	from := b.Len()
	defer func() { in.made(b.Len() - from) }()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(floatText(v))
	case string:
		reprText(b, v)
	case undefined:
		b.WriteString("Undefined")
	case *List:
		if v.kind != "" && v.kind != tupleKind {
			fail("%s is not written as text", typeName(v))
		}
		open, closing := "[", "]"
		if v.kind == tupleKind {
			open, closing = "(", ")"
			if len(v.Items) == 1 {
				closing = ",)"
			}
		}
		b.WriteString(open)
		for i, x := range v.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			in.repr(b, x, depth+1)
		}
		b.WriteString(closing)
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			in.repr(b, k, depth+1)
			b.WriteString(": ")
			in.repr(b, v.values[i], depth+1)
		}
		b.WriteByte('}')
	default:
		fail("%s is not written as text", typeName(v))
	}
}

// floatText is Python's repr of a float.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return map[bool]string{true: "inf", false: "-inf"}[f > 0]
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	if f != 0 && (exponent < -4 || exponent >= 16) {
		return s
	}
	if s = strconv.FormatFloat(f, 'f', -1, 64); !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func reprText(b *strings.Builder, s string) {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	b.WriteByte(q)
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteByte(q)
}
