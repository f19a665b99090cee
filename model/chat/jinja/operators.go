package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

var comparisons = map[string]func(in *state, a, b Value) bool{
	"==": func(in *state, a, b Value) bool { return in.equal(a, b, 0) },
	"!=": func(in *state, a, b Value) bool { return !in.equal(a, b, 0) },
	"<":  func(in *state, a, b Value) bool { return !notANumber(a, b) && in.compare(a, b, 0) < 0 },
	"<=": func(in *state, a, b Value) bool { return !notANumber(a, b) && in.compare(a, b, 0) <= 0 },
	">":  func(in *state, a, b Value) bool { return !notANumber(a, b) && in.compare(a, b, 0) > 0 },
	">=": func(in *state, a, b Value) bool { return !notANumber(a, b) && in.compare(a, b, 0) >= 0 },
}

func notANumber(of ...Value) bool {
	for _, v := range of {
		if f, ok := v.(float64); ok && math.IsNaN(f) {
			return true
		}
	}
	return false
}

var (
	sums     = map[string]func(in *state, a, b Value) Value{"+": add, "-": arithmetic("-")}
	products = map[string]func(in *state, a, b Value) Value{"*": multiply, "/": arithmetic("/"), "//": arithmetic("//"),
		"%": remainder}
	powers = map[string]func(in *state, a, b Value) Value{"**": arithmetic("**")}
)

func add(in *state, a, b Value) Value {
	_, aSafe := a.(safe)
	_, bSafe := b.(safe)
	s, aText := plain(a).(string)
	t, bText := plain(b).(string)
	if aText && bText {
		if aSafe && !bSafe {
			t = escaper.Replace(t)
		} else if bSafe && !aSafe {
			s = escaper.Replace(s)
		}
		in.made(len(s) + len(t))
		if aSafe || bSafe {
			return safe(s + t)
		}
		return s + t
	}
	l, aList := a.(*List)
	m, bList := b.(*List)
	if aList && bList && l.kind == m.kind && (l.kind == "" || l.kind == tupleKind) {
		in.made(16 * (len(l.Items) + len(m.Items)))
		return &List{Items: append(l.Items[:len(l.Items):len(l.Items)], m.Items...), kind: l.kind}
	}
	return arithmetic("+")(in, a, b)
}

func multiply(in *state, a, b Value) Value {
	if _, _, _, ok := number(a); ok {
		if _, _, _, too := number(b); !too {
			a, b = b, a
		}
	}
	n, _, whole, ok := number(b)
	times := func(size int) int {
		n := max(0, n)
		if size > 0 && n > int64(maxBytes/size) {
			n = int64(maxBytes/size) + 1
		}
		in.made(int(n) * size)
		return int(n)
	}
	if s, text := a.(string); text && ok && whole {
		return strings.Repeat(s, times(len(s)))
	}
	if l, list := a.(*List); list && ok && whole && (l.kind == "" || l.kind == tupleKind) {
		out := &List{kind: l.kind}
		for range times(16 * len(l.Items)) {
			if len(l.Items) == 0 {
				break
			}
			out.Items = append(out.Items, l.Items...)
		}
		return out
	}
	return arithmetic("*")(in, a, b)
}

// remainder is % of numbers, and Python's formatting of texts.
func remainder(in *state, a, b Value) Value {
	if s, ok := a.(string); ok {
		return in.format(s, b)
	}
	return arithmetic("%")(in, a, b)
}

// arithmetic computes with numbers: of whole ones exactly, in 64 bits.
func arithmetic(op string) func(in *state, a, b Value) Value {
	return func(_ *state, a, b Value) Value {
		ai, af, aw, ok := number(a)
		bi, bf, bw, too := number(b)
		if !ok || !too {
			defined(a)
			defined(b)
			fail("%s %s %s cannot be computed", typeName(a), op, typeName(b))
		}
		if bf == 0 && strings.ContainsAny(op, "/%") {
			fail("division by zero")
		}
		if aw && bw && op != "/" && (op != "**" || bi >= 0) {
			return whole(op, ai, bi)
		}
		f := 0.0
		switch op {
		case "+":
			f = af + bf
		case "-":
			f = af - bf
		case "*":
			f = af * bf
		case "/":
			if aw && bw && (max(ai, bi) > 1<<53 || min(ai, bi) < -1<<53) {
				fail("%d / %d is not supported: the numbers are large", ai, bi)
			}
			f = af / bf
		case "//":
			f = floorDivision(af, bf)
		case "%":
			f = pythonMod(af, bf)
		case "**":
			if f = math.Pow(af, bf); math.IsNaN(f) || math.IsInf(f, 0) {
				fail("%v ** %v is not supported", a, b)
			}
		}
		return f
	}
}

// pythonMod is a % b, which has the sign of b.
func pythonMod(a, b float64) float64 {
	m := math.Mod(a, b)
	switch {
	case m == 0:
		return math.Copysign(0, b)
	case (m < 0) != (b < 0):
		m += b
	}
	return m
}

// floorDivision is a // b, as Python rounds it.
func floorDivision(a, b float64) float64 {
	q := (a - pythonMod(a, b)) / b
	if q == 0 {
		return math.Copysign(0, a/b)
	}
	f := math.Floor(q)
	if q-f > 0.5 {
		f++
	}
	return f
}

func whole(op string, a, b int64) Value {
	x, y, z := big.NewInt(a), big.NewInt(b), new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		z.Mul(x, y)
	case "**":
		if b > 64 && (a > 1 || a < -1) {
			fail("%d ** %d is larger than 64 bits", a, b)
		}
		z.Exp(x, big.NewInt(min(b, 64+b%2)), nil) // of 0, 1 and -1, more changes nothing
	default: // // and %: rounded down
		m := new(big.Int)
		z.DivMod(x, y, m) // m ≥ 0
		if b < 0 && m.Sign() != 0 {
			z.Sub(z, big.NewInt(1))
			m.Add(m, y)
		}
		if op == "%" {
			z = m
		}
	}
	if !z.IsInt64() {
		fail("%d %s %d is larger than 64 bits", a, op, b)
	}
	return z.Int64()
}

func signed(sign string, v Value) Value {
	i, f, whole, ok := number(v)
	switch {
	case !ok:
		fail("%s%s cannot be computed", sign, typeName(v))
	case whole && sign == "-" && i == math.MinInt64:
		fail("-(%d) is larger than 64 bits", i)
	case whole && sign == "-":
		return -i
	case whole:
		return i
	case sign == "-":
		return -f
	}
	return f
}

// join joins values as texts, with a separator between them.
func (in *state) join(list []Value, separator string) string {
	texts, size := make([]string, len(list)), 0
	for i, v := range list {
		texts[i] = in.str(v)
		size += len(texts[i]) + len(separator)
	}
	in.made(size)
	return strings.Join(texts, separator)
}

// escaper escapes what is added to a safe text.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

// format is Python's % of a text, with %s, %r, %d, %i, %f and %%, a width, and a precision of %f.
func (in *state) format(s string, v Value) Value {
	values, mapping, allUsed := []Value{v}, (*Dict)(nil), true
	switch v := v.(type) {
	case *List:
		allUsed = v.kind != "" && v.kind != rangeKind
		if v.kind == tupleKind {
			values = v.Items
		}
	case *Dict:
		mapping, allUsed = v, false
	case undefined:
		allUsed = false
	}
	var b strings.Builder
	used := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		var x Value
		got := false
		if i < len(s) && s[i] == '(' && mapping != nil {
			n := strings.IndexByte(s[i:], ')')
			if n < 0 {
				fail("the format %q has an open bracket", s)
			}
			if x, got = mapping.Get(s[i+1 : i+n]); !got {
				fail("the format %q has a name without a value", s)
			}
			i += n + 1
		}
		from := i
		for i < len(s) && strings.IndexByte("-0123456789.", s[i]) >= 0 {
			i++
		}
		if i == len(s) {
			fail("the format %q is incomplete", s)
		}
		if s[i] == '%' {
			b.WriteByte('%')
			continue
		}
		if !got {
			if used == len(values) {
				fail("the format %q has more places than values", s)
			}
			x = values[used]
			used++
		}
		b.WriteString(in.padded(in.converted(s[i], s[from:i], x, s), s[from:i], s))
		in.made(b.Len())
	}
	if used < len(values) && allUsed {
		fail("the format %q has fewer places than values", s)
	}
	return b.String()
}

// converted is a value by one letter of a format.
func (in *state) converted(letter byte, flags string, v Value, format string) string {
	i, f, whole, ok := number(v)
	_, after, precise := strings.Cut(flags, ".")
	switch {
	case precise && letter != 'f':
	case letter == 's':
		return in.str(v)
	case letter == 'r':
		var b strings.Builder
		in.repr(&b, plain(v), 0)
		return b.String()
	case (letter == 'd' || letter == 'i') && ok && whole:
		return strconv.FormatInt(i, 10)
	case (letter == 'd' || letter == 'i') && ok && math.Abs(f) < 1<<53:
		return strconv.FormatInt(int64(f), 10)
	case letter == 'f' && ok:
		digits := 6
		if precise {
			digits, _ = strconv.Atoi("0" + after)
		}
		if digits <= 100 && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'f', digits, 64)
		}
	}
	fail("%%%s%c of %s in the format %q is not supported", flags, letter, typeName(v), format)
	return ""
}

// padded fills a text up to the width of a format.
func (in *state) padded(text, flags, format string) string {
	width, _, _ := strings.Cut(flags, ".")
	if width == "" {
		return text
	}
	left := strings.HasPrefix(width, "-")
	n, err := strconv.Atoi(strings.TrimPrefix(width, "-"))
	if err != nil || width[0] == '0' || n > 10_000 {
		fail("the width %q in the format %q is not supported", width, format)
	}
	blanks := strings.Repeat(" ", max(0, n-int(length(text))))
	if left {
		return text + blanks
	}
	return blanks + text
}
