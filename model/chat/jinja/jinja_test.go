package jinja

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// templateCase is a template, and what transformers makes of it.
type templateCase struct {
	Template, File string
	Values         json.RawMessage
	Text           *string // nil where transformers fails
	Error          string
}

// TestTemplates compares with the renderings of scripts/template_cases.py, and with those in the file that
// POPRI_TEMPLATES names. What is written is the same, and what transformers refuses is refused.
func TestTemplates(t *testing.T) {
	path := filepath.Join("..", "..", "..", "testdata", "golden", "templates", "cases.jsonl")
	if own := os.Getenv("POPRI_TEMPLATES"); own != "" {
		path = own
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	same, alone, both := 0, 0, 0
	values := map[string]Value{}
	for lines.Scan() {
		var c templateCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Values != nil {
			values = valuesOf(t, c.Values)
		}
		parsed, err := Parse(c.Template)
		var got string
		if err == nil {
			got, err = parsed.Render(values)
		}
		switch {
		case err != nil && c.Text == nil:
			both++
		case err != nil:
			alone++
			t.Logf("%s %s: %v, want %q", c.File, c.Template, err, *c.Text)
		case c.Text == nil:
			t.Errorf("%s %s: %q, want an error: %s", c.File, c.Template, got, c.Error)
		case *c.Text == got:
			same++
		default:
			t.Errorf("%s %s: %q, want %q", c.File, c.Template, got, *c.Text)
		}
	}
	t.Logf("%d alike, %d refused here alone, %d refused by both", same, alone, both)
	if same < 9*alone || same+both == 0 {
		t.Errorf("%d of %d are refused here alone", alone, same+alone)
	}
}

// valuesOf are values of a template, with functions as transformers has them.
func valuesOf(t *testing.T, raw json.RawMessage) map[string]Value {
	v, err := FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]Value{
		"raise_exception": &Function{Name: "raise_exception", Call: func(args []Value) (Value, error) {
			return nil, errors.New("refused")
		}},
		"strftime_now": &Function{Name: "strftime_now", Call: func(args []Value) (Value, error) {
			layout := strings.NewReplacer("%d", "02", "%b", "Jan", "%B", "January", "%m", "01", "%Y", "2006").Replace(args[0].(string))
			return time.Date(2024, 7, 26, 0, 0, 0, 0, time.UTC).Format(layout), nil
		}}}
	d := v.(*Dict)
	for i, k := range d.keys {
		values[k.(string)] = d.values[i]
	}
	return values
}

// hostile are templates that would take memory or time without end. Each is refused, in a moment.
var hostile = map[string]string{
	"{{ 'x' * 1000000000 }}":                       "MiB",
	"{{ ['x'] * 1000000000 }}":                     "MiB",
	"{{ 'x' * 9223372036854775807 }}":              "MiB",
	"{% for i in range(100000000) %}a{% endfor %}": "range",
	"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}":                                    "steps",
	"{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}":            "MiB",
	"{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}":            "MiB",
	"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}":                   "MiB",
	"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}":        "",
	"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}": "",
	"{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}" +
		"{% endfor %}{{ ns.l == ns.m }}": "steps",
	"{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}": "in each other",
	"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}":                                                        "in each other",
	"{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}":                                               "in each other",
	"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}":                                                "in each other",
	"{{ a" + strings.Repeat(".a", 100_000) + " }}":                                                           "in a row",
	"{{ " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000) + " }}":                        "in each other",
	"{{ " + strings.Repeat("-", 100_000) + "1 }}":                                                            "in each other",
	"{{ " + strings.Repeat("not ", 100_000) + "1 }}":                                                         "in each other",
	"{{ " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + " }}":                              "in each other",
	"{{ 1" + strings.Repeat("+1", 100_000) + " }}":                                                           "in a row",
	"{{ 1" + strings.Repeat("|abs", 100_000) + " }}":                                                         "in a row",
	strings.Repeat("{% if 1 %}", 100_000):                                                                    "in each other",
	"{{ 9 ** 9 ** 9 ** 9 }}":                                                                                 "64 bits",
	"{{ 'x\\ny'|indent(1000000000) }}":                                                                       "MiB",
	"{{ '%1000000000s' % 1 }}":                                                                               "width",
	"{{ [1]|tojson(indent=1000000000)|length }}{{ 'aaaa'.replace('', 'x' * 100000000) }}":                    "MiB",
	"{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% if x.upper() in x %}{% endif %}{% endfor %}":   "",
	strings.Repeat(" ", 2<<20):                                                                               "bytes",
}

// TestHostile: a template comes with a model, from anywhere.
func TestHostile(t *testing.T) {
	for source, want := range hostile {
		parsed, err := Parse(source)
		if err == nil {
			_, err = parsed.Render(nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %.200v, want %q", source, err, want)
		}
	}
}

// An error names the line, and a value that is not there by its name.
func TestErrors(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{{ nothing.role }}":                `line 2: "nothing" is undefined`,
		"{{ m.zz.yy }}":                        `the member "zz" of a dict is undefined`,
		"\n\n{% for x in y %}":                 "line 3: a block has no end: endfor or else",
		"{% include 'a' %}":                    `the statement "include" is not supported`,
		"{{ 'a'.center(9) }}":                  "center of a text is not supported",
		"{{ [].append(1) }}":                   "unsafe",
		"{{ 1|nothing }}":                      `no filter or test is named "nothing"`,
		"{{ 1|wordwrap }}":                     "the filter wordwrap is unknown or not supported",
		"{{ 'a' + 1 }}":                        "a text + an int cannot be computed",
		"{{ ''.__class__ }}":                   "unsafe",
		"{{ 99999999999999999999 }}":           "64 bits",
		"{{ 9223372036854775807 + 1 }}":        "64 bits",
		"{{ '١٢'|int }}":                       `int of "١٢" is not supported`,
		"{{ self }}":                           "an object is not written",
		"{% if 1 %}{{ 1|nothing }}{% endif %}": "the filter nothing is unknown",
	} {
		parsed, err := Parse(source)
		if err == nil {
			_, err = parsed.Render(map[string]Value{"m": NewDict()})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// TestOrder: whole numbers that are far apart have an order, and a number that is none has no order.
func TestOrder(t *testing.T) {
	for source, want := range map[string]string{
		"{{ 9223372036854775807 > -1 }} {{ -2 < 9223372036854775807 }}":          "True True",
		"{{ [9223372036854775807, -9]|sort }}":                                   "[-9, 9223372036854775807]",
		"{{ n < 1 }} {{ n > 1 }} {{ n >= n }} {{ [1, n]|max }} {{ [1, n]|min }}": "False False False 1 1",
	} {
		parsed, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parsed.Render(map[string]Value{"n": math.NaN()}); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", source, got, err, want)
		}
	}
}

// TestFromJSON: numbers stay what they are, objects keep their order.
func TestFromJSON(t *testing.T) {
	v, err := FromJSON([]byte(`{"z": 1, "a": {"y": 2.0, "b": [null, true, 1e3, "x"]}, "m": 9007199254740993}`))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse("{{ v|tojson }}{{ v }}")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"z": 1, "a": {"y": 2.0, "b": [null, true, 1000.0, "x"]}, "m": 9007199254740993}` +
		`{'z': 1, 'a': {'y': 2.0, 'b': [None, True, 1000.0, 'x']}, 'm': 9007199254740993}`
	if got, err := parsed.Render(map[string]Value{"v": v}); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "{", "[1,]", "99999999999999999999", "1 2", strings.Repeat("[", 10_000)} {
		if v, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%.20s: %v", bad, v)
		}
	}
}

// FuzzTemplate: whatever a template says, it is carried out or refused, within its bounds.
func FuzzTemplate(f *testing.F) {
	for source := range hostile {
		if len(source) < 1000 {
			f.Add(source)
		}
	}
	for _, source := range []string{
		"{% for m in messages %}{{ '<|' + m['role'] + '|>' + m.content | trim + eos_token }}{% endfor %}",
		"{%- set x = namespace(n=0) -%}{% if messages[-1].role == 'user' and not tools %}{{ raise_exception('no') }}{% endif %}",
		"{% generation %}{{ messages | length }}{{ messages[0].content | tojson }}{% endgeneration %}{# a #}",
		"{% macro m(a, b=2) %}{{ caller(a) }}{{ varargs }}{{ kwargs }}{% endmacro %}{% call(x) m(1) %}{{ x }}{% endcall %}",
		"{% set x %}{% raw %}{{{% endraw %}{% endset %}{{ x[::-1].split(none, 1) }}{% filter upper %}a{% endfilter %}",
	} {
		f.Add(source)
	}
	messages, err := FromJSON([]byte(`[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes", "n": [1, {}]}]`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source string) {
		parsed, err := Parse(source)
		if err != nil {
			return
		}
		begun := time.Now()
		_, _ = parsed.Render(map[string]Value{"messages": messages, "eos_token": "</s>", "tools": nil})
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%s took %s", source, took)
		}
	})
}
