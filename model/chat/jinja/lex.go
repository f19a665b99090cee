package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	end         kind = iota // of the template
	data                    // text outside of tags
	beginBlock              // {%
	endBlock                // %}
	beginOutput             // {{
	endOutput               // }}
	name
	text // a string
	integer
	decimal
	operator
)

type token struct {
	kind kind
	text string // of a string, its value; of an operator, the operator
	line int
}

// is reports whether the token is the given operator.
func (t token) is(op string) bool { return t.kind == operator && t.text == op }

// named reports whether the token is one of the given names.
func (t token) named(names ...string) bool {
	return t.kind == name && slices.Contains(names, t.text)
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end of the template"
	case endBlock:
		return `"%}"`
	case endOutput:
		return `"}}"`
	}
	return quoted(t.text)
}

// lexer divides a template into tokens, with trim_blocks and lstrip_blocks.
type lexer struct {
	source  string
	at      int
	tokens  []token
	counted int // bytes of source whose lines are counted
	lines   int // among them
	// starting says that the token before this one ended a line.
	starting bool
}

// lex returns the tokens of a template; the last one is its end.
func lex(source string) []token {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{source: strings.TrimSuffix(source, "\n"), starting: true}
	for l.at < len(l.source) {
		l.root()
	}
	l.add(end, "")
	return l.tokens
}

func (l *lexer) add(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.line()})
}

func (l *lexer) line() int {
	l.lines += strings.Count(l.source[l.counted:l.at], "\n")
	l.counted = l.at
	return l.lines + 1
}

// advance goes over n bytes.
func (l *lexer) advance(n int) {
	if n > 0 {
		l.starting = l.source[l.at+n-1] == '\n'
	}
	l.at += n
}

// root reads text up to the next tag, and the tag.
func (l *lexer) root() {
	rest := l.source[l.at:]
	i := 0
	for i < len(rest) && (rest[i] != '{' || i+1 == len(rest) || strings.IndexByte("{%#", rest[i+1]) < 0) {
		i++
	}
	if i == len(rest) {
		l.add(data, rest)
		l.advance(len(rest))
		return
	}
	sign := signOf(rest[i+2:])
	if before := l.stripped(rest[:i], sign, rest[i+1] != '{'); before != "" {
		l.add(data, before)
	}
	l.advance(i)
	switch rest[i+1] {
	case '#':
		l.advance(2)
		l.comment()
	case '{':
		l.add(beginOutput, "{{")
		l.advance(2 + len(sign))
		l.tag(endOutput, "}}")
	default:
		if l.raw(sign) {
			return
		}
		l.add(beginBlock, "{%")
		l.advance(2 + len(sign))
		l.tag(endBlock, "%}")
	}
}

func signOf(rest string) string {
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		return rest[:1]
	}
	return ""
}

// stripped is the text before a tag without the white space that the tag removes.
func (l *lexer) stripped(before, sign string, block bool) string {
	switch {
	case sign == "-":
		return strings.TrimRightFunc(before, isSpace)
	case sign == "" && block:
		from := strings.LastIndexByte(before, '\n') + 1
		if (from > 0 || l.starting) && strings.TrimFunc(before[from:], isSpace) == "" {
			return before[:from]
		}
	}
	return before
}

// comment goes to the end of a comment.
func (l *lexer) comment() {
	i := strings.Index(l.source[l.at:], "#}")
	if i < 0 {
		failAt(l.line(), "a tag has no end, %q", "#}")
	}
	sign := byte(0)
	if i > 0 {
		sign = l.source[l.at+i-1]
	}
	l.advance(i)
	l.close("#}", sign)
}

// close goes over the end of a tag and the white space that it removes.
func (l *lexer) close(closing string, sign byte) {
	n := len(closing)
	rest := l.source[l.at+n:]
	switch {
	case sign == '-':
		n += len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case sign != '+' && closing != "}}" && strings.HasPrefix(rest, "\n"):
		n++
	}
	l.advance(n)
}

// raw reads {% raw %} … {% endraw %}, if it stands here.
func (l *lexer) raw(sign string) bool {
	rest := strings.TrimLeftFunc(l.source[l.at+2+len(sign):], isSpace)
	if !strings.HasPrefix(rest, "raw") {
		return false
	}
	rest = strings.TrimLeftFunc(rest[len("raw"):], isSpace)
	dash := strings.HasPrefix(rest, "-%}")
	if !dash && !strings.HasPrefix(rest, "%}") {
		return false
	}
	l.advance(len(l.source) - l.at - len(rest) + 2)
	if dash {
		l.advance(1)
		rest := l.source[l.at:]
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
	}
	for from := l.at; ; {
		i := strings.Index(l.source[from:], "{%")
		if i < 0 {
			failAt(l.line(), "raw has no endraw")
		}
		from += i + 2
		sign := signOf(l.source[from:])
		rest := strings.TrimLeftFunc(l.source[from+len(sign):], isSpace)
		if !strings.HasPrefix(rest, "endraw") {
			continue
		}
		rest = strings.TrimLeftFunc(rest[len("endraw"):], isSpace)
		closing := signOf(rest)
		if !strings.HasPrefix(rest[len(closing):], "%}") {
			continue
		}
		if inner := l.stripped(l.source[l.at:from-2], sign, true); inner != "" {
			l.add(data, inner)
		}
		l.advance(len(l.source) - l.at - len(rest) + len(closing))
		l.close("%}", (closing + "\x00")[0])
		return true
	}
}

// operators, the longer ones first.
var operators = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";"}

// tag reads the tokens of a tag, up to its end.
func (l *lexer) tag(closes kind, closing string) {
	var open []byte // brackets
	for {
		if l.at >= len(l.source) {
			failAt(l.line(), "a tag has no end, %q", closing)
		}
		rest := l.source[l.at:]
		if len(open) == 0 {
			sign := signOf(rest)
			if closing == "}}" && sign == "+" {
				sign = ""
			}
			if strings.HasPrefix(rest[len(sign):], closing) {
				l.add(closes, closing)
				l.advance(len(sign))
				l.close(closing, (sign + "\x00")[0])
				return
			}
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isSpace(r):
			l.advance(size)
		case r == '"' || r == '\'':
			l.quotedText(byte(r))
		case r >= '0' && r <= '9':
			l.number()
		case r == '_' || unicode.IsLetter(r):
			n := len(rest) - len(strings.TrimLeftFunc(rest, isWord))
			l.add(name, rest[:n])
			l.advance(n)
		default:
			open = l.operator(rest, open)
		}
	}
}

// operator reads an operator, and returns the brackets that are open after it.
func (l *lexer) operator(rest string, open []byte) []byte {
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch at := strings.IndexByte("([{)]}", op[0]); {
		case at >= 3:
			if len(open) == 0 || open[len(open)-1] != "([{"[at-3] {
				failAt(l.line(), "%q closes no bracket", op)
			}
			open = open[:len(open)-1]
		case at >= 0:
			open = append(open, op[0])
		}
		l.add(operator, op)
		l.advance(len(op))
		return open
	}
	r, _ := utf8.DecodeRuneInString(rest)
	failAt(l.line(), "unexpected %q", r)
	return nil
}

// number reads an integer or a decimal number.
func (l *lexer) number() {
	rest := l.source[l.at:]
	digits := func(s string) int {
		n := 0
		for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '_' && n > 0 && n+1 < len(s) && s[n+1] >= '0' && s[n+1] <= '9') {
			n++
		}
		return n
	}
	n, k := digits(rest), integer
	if n == 1 && rest[0] == '0' && len(rest) > 1 && strings.IndexByte("xXoObB", rest[1]) >= 0 {
		n = len(rest) - len(strings.TrimLeftFunc(rest, isWord))
	} else {
		afterDot := len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].is(".")
		if f := n; !afterDot && f+1 < len(rest) && rest[f] == '.' && digits(rest[f+1:]) > 0 {
			n, k = f+1+digits(rest[f+1:]), decimal
		}
		if !afterDot && n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			m := n + 1 + len(signOf(rest[n+1:]))
			if d := digits(rest[m:]); d > 0 {
				n, k = m+d, decimal
			}
		}
		if k == integer && rest[0] == '0' && strings.Trim(rest[:n], "0_") != "" {
			failAt(l.line(), "the number %s begins with 0", rest[:n])
		}
	}
	l.add(k, strings.ReplaceAll(rest[:n], "_", ""))
	l.advance(n)
}

// quotedText reads a string as Python does: with escapes, over lines too.
func (l *lexer) quotedText(quote byte) {
	rest := l.source[l.at:]
	i := 1
	for ; i < len(rest) && rest[i] != quote; i++ {
		if rest[i] == '\\' {
			i++
		}
	}
	if i >= len(rest) {
		failAt(l.line(), "a string has no end")
	}
	l.add(text, unescaped(rest[1:i], l.line()))
	l.advance(i + 1)
}

// simple are the escapes of one character.
var simple = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f",
	'v': "\v", '\n': ""}

func unescaped(s string, line int) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if one, ok := simple[s[i]]; ok {
			b.WriteString(one)
			continue
		}
		switch n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]; {
		case n > 0:
			r, ok := rune(0), len(s) > i+n
			for _, h := range []byte(s[i+1 : min(len(s), i+1+n)]) {
				at := strings.IndexByte("0123456789abcdef", h|0x20)
				ok = ok && at >= 0
				r = r<<4 | rune(at)
			}
			if !ok || !utf8.ValidRune(r) {
				failAt(line, "the escape \\%c of a string is damaged", s[i])
			}
			b.WriteRune(r)
			i += n
		case s[i] >= '0' && s[i] <= '7':
			r := rune(0)
			m := i
			for ; m < len(s) && m < i+3 && s[m] >= '0' && s[m] <= '7'; m++ {
				r = r<<3 | rune(s[m]-'0')
			}
			b.WriteRune(r)
			i = m - 1
		case s[i] == 'N':
			failAt(line, "the escape \\N of a string is not supported")
		default: // kept, as Python does
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
