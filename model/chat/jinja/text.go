package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"popri/internal/numeric"
)

// textOf is an argument that must be a text.
func textOf(function string, v Value) string {
	s, ok := plain(v).(string)
	if !ok {
		fail("%s takes a text, not %s", function, typeName(v))
	}
	return s
}

// wholeOf is an argument that must be a whole number.
func wholeOf(function string, v Value) int {
	i, _, whole, ok := number(v)
	if !ok || !whole {
		fail("%s takes a whole number, not %s", function, typeName(v))
	}
	return int(i)
}

// stripping is strip, lstrip or rstrip.
func stripping(n string, left, right bool) func(in *state, s string, a args) Value {
	return func(_ *state, s string, a args) Value {
		of, _ := a.given(n, "chars")
		drop := isSpace
		if of[0] != nil {
			chars := textOf(n, of[0])
			drop = func(r rune) bool { return strings.ContainsRune(chars, r) }
		}
		if left {
			s = strings.TrimLeftFunc(s, drop)
		}
		if right {
			s = strings.TrimRightFunc(s, drop)
		}
		return s
	}
}

// edge is startswith or endswith: of a text, or of one of several.
func edge(n string, has func(s, edge string) bool) func(in *state, s string, a args) Value {
	return func(_ *state, s string, a args) Value {
		of, _ := a.given(n, "edge")
		if l, ok := of[0].(*List); ok && l.kind == tupleKind {
			return slices.ContainsFunc(l.Items, func(v Value) bool { return has(s, textOf(n, v)) })
		}
		return has(s, textOf(n, of[0]))
	}
}

// finding is find, rfind, index or rindex, in characters; the last two fail where there is nothing.
func finding(n string, find func(s, part string) int) func(in *state, s string, a args) Value {
	return func(_ *state, s string, a args) Value {
		of, _ := a.given(n, "sub")
		at := find(s, textOf(n, of[0]))
		if at < 0 {
			if strings.HasSuffix(n, "index") {
				fail("the text is not found")
			}
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:at]))
	}
}

// each is a test of all characters; false for an empty text.
func each(n string, holds func(r rune) bool) func(in *state, s string, a args) Value {
	return func(_ *state, s string, a args) Value {
		a.given(n)
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !holds(r) }) < 0
	}
}

// isDigit is Python's isdigit; other numbers, such as superscripts, are digits to Python in part.
func isDigit(r rune) bool {
	if unicode.IsNumber(r) && !unicode.IsDigit(r) {
		fail("isdigit of %q is not supported", r)
	}
	return unicode.IsDigit(r)
}

// cased is isupper or islower: some letters have this case and none the other.
func cased(n string, has, hasNot func(r rune) bool) func(in *state, s string, a args) Value {
	return func(_ *state, s string, a args) Value {
		a.given(n)
		return isCased(s, has, hasNot)
	}
}

func isCased(s string, has, hasNot func(r rune) bool) bool {
	return strings.IndexFunc(s, has) >= 0 && strings.IndexFunc(s, hasNot) < 0
}

func changedBy(n string, change func(s string) string) func(in *state, s string, a args) Value {
	return func(in *state, s string, a args) Value {
		a.given(n)
		in.made(len(s))
		return change(s)
	}
}

func upper(s string) string { return cases.Upper(language.Und).String(s) }
func lower(s string) string { return cases.Lower(language.Und).String(s) }

// capitalized is a text whose first letter is large and whose others are small.
func capitalized(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return cases.Title(language.Und, cases.NoLower).String(s[:n]) + lower(s[n:])
}

// titled is Python's title: a letter is large where none precedes it.
func titled(s string) string {
	var b strings.Builder
	within := false
	for _, r := range s {
		switch {
		case within:
			b.WriteString(lower(string(r)))
		default:
			b.WriteString(cases.Title(language.Und).String(string(r)))
		}
		within = unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
	}
	return b.String()
}

var textMethods map[string]func(in *state, s string, a args) Value

func init() { // the table refers to functions that refer to it
	textMethods = map[string]func(in *state, s string, a args) Value{
		"strip": stripping("strip", true, true), "lstrip": stripping("lstrip", true, false),
		"rstrip":     stripping("rstrip", false, true),
		"startswith": edge("startswith", strings.HasPrefix), "endswith": edge("endswith", strings.HasSuffix),
		"find": finding("find", strings.Index), "rfind": finding("rfind", strings.LastIndex),
		"index": finding("index", strings.Index), "rindex": finding("rindex", strings.LastIndex),
		"isdigit": each("isdigit", isDigit), "isalpha": each("isalpha", unicode.IsLetter),
		"isalnum": each("isalnum", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace": each("isspace", isSpace),
		"isupper": cased("isupper", unicode.IsUpper, unicode.IsLower),
		"islower": cased("islower", unicode.IsLower, unicode.IsUpper),
		"upper":   changedBy("upper", upper), "lower": changedBy("lower", lower),
		"capitalize": changedBy("capitalize", capitalized), "title": changedBy("title", titled),
		"split": splitting("split"), "rsplit": splitting("rsplit"), "splitlines": splitLines,
		"partition": partition("partition", strings.Index), "rpartition": partition("rpartition", strings.LastIndex),
		"removeprefix": func(_ *state, s string, a args) Value {
			of, _ := a.given("removeprefix", "prefix")
			return strings.TrimPrefix(s, textOf("removeprefix", of[0]))
		},
		"removesuffix": func(_ *state, s string, a args) Value {
			of, _ := a.given("removesuffix", "suffix")
			return strings.TrimSuffix(s, textOf("removesuffix", of[0]))
		},
		"replace": func(in *state, s string, a args) Value {
			of, has := a.given("replace", "old", "new", "count")
			count := -1
			if has[2] {
				count = wholeOf("replace", of[2])
			}
			return in.replaced(s, textOf("replace", of[0]), textOf("replace", of[1]), count)
		},
		"count": func(_ *state, s string, a args) Value {
			of, _ := a.given("count", "sub")
			return int64(strings.Count(s, textOf("count", of[0])))
		},
		"join": func(in *state, s string, a args) Value {
			of, _ := a.given("join", "iterable")
			list := in.items(of[0])
			for _, v := range list {
				textOf("join", v)
			}
			return in.join(list, s)
		},
		"format": formatBraces,
	}
}

func (in *state) replaced(s, old, with string, count int) string {
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if n > 0 && len(with) > maxBytes/n {
		in.made(maxBytes + 1)
	}
	in.made(len(s) + n*len(with))
	return strings.Replace(s, old, with, count)
}

func (in *state) texts(list []string) *List {
	in.made(16 * len(list))
	return NewList(numeric.Map(list, func(s string) Value { return s })...)
}

// splitting is split or rsplit: at a text, or at white space where none is given.
func splitting(n string) func(in *state, s string, a args) Value {
	return func(in *state, s string, a args) Value {
		of, has := a.given(n, "sep", "maxsplit")
		most := -1
		if has[1] {
			most = wholeOf(n, of[1])
		}
		fromRight := n == "rsplit" && most >= 0
		if of[0] == nil {
			if most >= 0 && len(strings.FieldsFunc(s, isSpace)) > most {
				return in.texts(fieldsUpTo(s, most, fromRight))
			}
			return in.texts(strings.FieldsFunc(s, isSpace))
		}
		at := textOf(n, of[0])
		if at == "" {
			fail("the separator of %s is empty", n)
		}
		if most < 0 {
			return in.texts(strings.Split(s, at))
		}
		if !fromRight {
			return in.texts(strings.SplitN(s, at, most+1))
		}
		var parts []string
		for len(parts) < most {
			i := strings.LastIndex(s, at)
			if i < 0 {
				break
			}
			parts, s = append(parts, s[i+len(at):]), s[:i]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return in.texts(parts)
	}
}

// fieldsUpTo divides a text at white space, most times.
func fieldsUpTo(s string, most int, fromRight bool) (parts []string) {
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); len(parts) < most; {
			i := strings.LastIndexFunc(s, isSpace)
			parts = append(parts, strings.TrimLeftFunc(s[i:], isSpace))
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); len(parts) < most; {
		i := strings.IndexFunc(s, isSpace)
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	return append(parts, s)
}

func partition(n string, find func(s, at string) int) func(in *state, s string, a args) Value {
	return func(_ *state, s string, a args) Value {
		of, _ := a.given(n, "sep")
		at := textOf(n, of[0])
		if at == "" {
			fail("the separator of %s is empty", n)
		}
		i := find(s, at)
		switch {
		case i >= 0:
			return tuple(s[:i], at, s[i+len(at):])
		case n == "partition":
			return tuple(s, "", "")
		}
		return tuple("", "", s)
	}
}

// lines divides a text into lines as Python does; kept are their ends.
func lines(s string, kept bool) (list []string) {
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool {
			return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
		})
		if i < 0 {
			return append(list, s)
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			size = 2
		}
		line := s[:i]
		if kept {
			line = s[:i+size]
		}
		list, s = append(list, line), s[i+size:]
	}
	return list
}

func splitLines(in *state, s string, a args) Value {
	of, _ := a.given("splitlines", "keepends")
	return in.texts(lines(s, truth(of[0])))
}

// formatBraces is Python's str.format, with {}, {0} and {name}.
func formatBraces(in *state, s string, a args) Value {
	var b strings.Builder
	next := int64(0)
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{"), strings.HasPrefix(s[i:], "}}"):
			b.WriteByte(s[i])
			i++
		case s[i] == '{':
			n := strings.IndexByte(s[i:], '}')
			if n < 0 {
				fail("the format %q has an open bracket", s)
			}
			field := s[i+1 : i+n]
			i += n
			v, ok := a.named.Get(field)
			if field == "" {
				v, ok = in.item(NewList(a.list...), next), next < int64(len(a.list))
				next++
			} else if len(field) == 1 && field[0] >= '0' && field[0] <= '9' {
				at := int64(field[0] - '0')
				v, ok = in.item(NewList(a.list...), at), at < int64(len(a.list))
			}
			if !ok {
				fail("the field %q of the format %q has no value or is not supported", field, s)
			}
			b.WriteString(in.str(v))
			in.made(b.Len())
		case s[i] == '}':
			fail("the format %q has a bracket too many", s)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
