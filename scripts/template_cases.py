#!/usr/bin/env python3
"""Renders chat templates as transformers does, and writes lines {"template", "file", "values", "text" | "error"}. A line
without values has the values of the line before.

  python3 scripts/template_cases.py --out testdata/golden/templates/cases.jsonl
  python3 scripts/template_cases.py --out /tmp/cases.jsonl DIR/*.jinja
  POPRI_TEMPLATES=/tmp/cases.jsonl go test ./model/chat/jinja -run TestTemplates -v

Without files the templates are drawn at random from the grammar below. Needs transformers and jinja2.
"""
import argparse, copy, datetime, json, os, random, warnings

import transformers.utils.chat_template_utils as chat

warnings.simplefilter("ignore")
p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--out", required=True)
p.add_argument("--seed", type=int, default=1)
p.add_argument("--n", type=int, default=3000, help="templates that are drawn; of those that fail, one in ten is kept")
p.add_argument("files", nargs="*")
a = p.parse_args()


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat.datetime = Day if chat.datetime is datetime.datetime else type("datetime", (), {"datetime": Day})


def case(template, values, name=""):
    c = {"template": template, "file": name, "values": values}
    try:  # of a copy, for the filter indent changes a list
        c["text"] = chat._compile_jinja_template(template).render(**copy.deepcopy(values))
    except Exception as e:
        c["error"] = f"{type(e).__name__}: {e}"[:200]
    return c


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = [{"id": "abcdefghi", "type": "function", "function": {"name": "get", "arguments": {
    "city": "Paris", "zeta": 1, "alpha": [1, 2.5, None, True], "nested": {"b": 1e20, "a": 'x"y'}}}}]
CONVERSATIONS = [
    [turn("user", "Hello, <b>who</b> are you? é中文 😀")],
    [turn("system", "Be brief."), turn("user", "Hi"), turn("assistant", "Hello!")],
    [turn("user", "Hi"), turn("assistant", "<think>\nhm\n</think>\n\nHello!"), turn("user", "And?"),
     turn("assistant", "No <think> here.")],
    [turn("user", "Hi"), turn("assistant", "They make food.</think>Honey"), turn("user", "more"),
     turn("assistant", "x</think>y</think>z")],
    [turn("user", "  spaced \n"), turn("assistant", "\n\n x \n"), turn("user", "")],
    [turn("user", "Weather?"), turn("assistant", "", tool_calls=CALL),
     turn("tool", '{"t": 20}', name="get", tool_call_id="abcdefghi"), turn("assistant", "It is 20.")],
    [turn("user", [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]), turn("assistant", "fine")],
    [turn("user", "q"), turn("assistant", "answer", reasoning_content="because"), turn("user", "q2")],
    [turn("assistant", "I begin"), turn("user", "odd")],
    [turn("user", "a"), turn("user", "b")],
    [],
]
TOOLS = [{"type": "function", "function": {"name": "get", "description": "Gets it", "parameters": {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "the city", "enum": ["a", "b"]}, "n": {"type": "integer"},
        "o": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}}}}}]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def of_files(files):
    for path in files:
        source = open(path, encoding="utf-8").read()
        for conversation in CONVERSATIONS:
            for prompt in (False, True):
                for more in ({"tools": None}, {"tools": TOOLS}, {"tools": None, "enable_thinking": False},
                             {"tools": None, "enable_thinking": True, "thinking": True}):
                    values = {"messages": conversation, "add_generation_prompt": prompt, "documents": None, **more, **TOKENS}
                    yield case(source, values, os.path.basename(path))


# A grammar of expressions and statements. Some of what it makes is wrong, and must be wrong here and there.
VALUES = {"s": "Ab c\n d-é", "e": "", "n": 7, "z": 0, "f": -2.5, "big": 1e16, "t": True, "u": None,
          "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, {"x": "y'"}], "items": 5, "c": None},
          "m": [turn("user", "one"), turn("assistant", "two", n=2), turn("user", "Three")], "p": "a,b,,c", "x": "  pad\t"}
FILTERS = ["abs", "capitalize", "count", "default('q')", "default('q', true)", "d(1, boolean=True)", "dictsort",
           "dictsort(by='value')", "dictsort(true, reverse=true)", "first", "float", "indent", "indent(2, true)",
           "indent(width='>', blank=true)", "int", "int(5)", "items|list", "join", "join('-')", "join(', ', attribute='role')",
           "last", "length", "list", "lower", "map('upper')|list", "map(attribute='role')|list",
           "map(attribute='n', default=0)|list", "max", "min", "reject('string')|list", "select|list",
           "select('in', [1, 'b'])|list", "rejectattr('n', 'defined')|list", "selectattr('role', 'equalto', 'user')|list",
           "selectattr('n')|list|length", "replace('b', 'BB')", "replace('a', '', 1)", "reverse|list", "reverse", "round",
           "round(1)", "round(0, 'floor')", "safe", "sort", "sort(reverse=true)", "sort(attribute='content')|length", "string",
           "sum", "sum(start=10)", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
           "tojson(separators=(',', ':'))", "trim", "trim('Ad')", "unique|list", "upper", "e", "format(1, 2)", "attr('items')"]
METHODS = ["strip()", "lstrip()", "rstrip('c')", "split()", "split(',')", "split(',', 1)", "split(none, 1)", "rsplit(',', 1)",
           "split(',')[-1]", "split('</t>')[0]", "splitlines()", "upper()", "lower()", "title()", "capitalize()",
           "startswith('A')", "startswith(('x', 'A'))", "endswith('é')", "find('c')", "rfind('zz')", "index('b')",
           "count('a')", "replace('b', 'x')", "replace(' ', '', 1)", "isdigit()", "isalpha()", "isspace()", "islower()",
           "join(['x', 'y'])", "partition(',')", "removeprefix('A')", "removesuffix('é')", "format(1, x=2)", "items()",
           "keys()|list", "values()|list", "get('a')", "get('zz', 4)", "get('zz')", "append(1)", "index(1)", "count(1)",
           "items()|list|length", "copy()", "role", "content", "a", "zz", "zz.y", "0", "items", "__class__", "pop('a')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping",
         "sequence", "iterable", "callable", "odd", "even", "upper", "lower", "eq 7", "ne 'x'", "lt 3", "ge(0)", "in [7, 'b']",
         "divisibleby 3", "sameas none", "equalto(z)", "not none", "not string", "not mapping"]
LITERALS = ["1", "0", "-3", "2.5", "1e3", "10", "'a'", '"b\\n"', "'é'", "''", "[]", "[1, 'a', none]", "{}", "{'k': 1, 'b': [2]}",
            "true", "False", "none", "(1, 2)", "()", "('x',)", "'%s-%d'", "'{} {x}'", "nope", "range(4)", "0x1f", "1_000"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
RARE = ["{% for x in [1] %}{% break %}{% else %}else{% endfor %}", "{% for x in l %}{% continue %}{% else %}else{% endfor %}",
        "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{% else %}else{% endfor %}", "{% for x in [] %}{% else %}else{% endfor %}",
        "{{ '1e400'|float }}", "{{ '1e400'|int(3) }}", "{{ 01 }}", "{{ 007.5 }}", "{{ 0_0 }}", "{% for v, loop in [[1, 2]] %}{% endfor %}",
        "{% if z %}{% macro g(a=1|nofilter) %}{% endmacro %}{% endif %}", "{% if z %}{{ 1|nofilter }}{% endif %}"]


def expression(r, depth):
    def sub():
        return expression(r, depth - 1)
    pick = r.random()
    if depth == 0 or pick < 0.12:
        return r.choice(LITERALS) if r.random() < 0.4 else r.choice(list(VALUES))
    if pick < 0.36:
        return f"{sub()}|{r.choice(FILTERS)}"
    if pick < 0.54:
        return f"{sub()}.{r.choice(METHODS)}"
    if pick < 0.62:
        return f"{sub()} is {r.choice(TESTS)}"
    if pick < 0.80:
        return f"{sub()} {r.choice(BINARY)} {sub()}"
    if pick < 0.85:
        return f"({sub()})"
    if pick < 0.88:
        return f"{r.choice(['not ', '-', '+'])}{sub()}"
    if pick < 0.92:
        return f"{sub()} if {sub()}" + (f" else {sub()}" if r.random() < 0.7 else "")
    index = r.choice(["0", "-1", "'a'", "1:", ":-1", "::-1", "-2:", "::2", "9", "1:9", "'items'", "n", ":n:2", "s"])
    return f"{sub()}[{index}]"


def statement(r, depth):
    def body():
        return "".join(statement(r, depth - 1) for _ in range(r.randint(0, 3)))

    def open_():
        return r.choice(["{%", "{%-", "{%+", "  {%", "\n{%", "\n  {%", "\n  {%-"])

    def close():
        return r.choice(["%}", "-%}", "+%}", "%}\n", "%}\n  ", "-%}\n  "])
    pick = r.random()
    e = lambda: expression(r, 2)
    if depth == 0 or pick < 0.35:
        return r.choice(["{{ ", "{{- ", " {{"]) + e() + r.choice([" }}", " -}}", "}}\n"])
    if pick < 0.45:
        return r.choice(["text", " a ", "\n", "\n\n  b", "{# note #}\n", "  {#- note -#}  ", "\n  {# x #}\n", "}", "{ %"])
    if pick < 0.60:
        more = f"{open_()} elif {e()} {close()}{body()}" if r.random() < 0.3 else ""
        other = f"{open_()} else {close()}{body()}" if r.random() < 0.5 else ""
        return f"{open_()} if {e()} {close()}{body()}{more}{other}{open_()} endif {close()}"
    if pick < 0.80:
        head = r.choice(["v in l", "v in w|sort", "k, v in d.items()", "k, v in d|dictsort", f"v in {e()}", "v in m if v.role == 'user'",
                         "v in range(3)", "v in s", "v in []", "v in d"])
        inner = r.choice(["{{ loop.index }}", "{{ v }},", "{{ loop.last }}{{ loop.revindex }}", "{{ loop.previtem }}",
                          "{{ loop.cycle('a', 'b') }}", "{% if loop.index == 2 %}{% break %}{% endif %}",
                          "{% if loop.first %}{% continue %}{% endif %}{{ v }}", "{% set y = v %}{{ y }}",
                          "{% set ns.n = ns.n + 1 %}{{ ns.n }}", "{{ loop.changed(v) }}", "{{ loop.length }}{{ loop.depth }}"])
        other = "{% else %}none" if r.random() < 0.3 else ""
        return f"{open_()} for {head} {close()}{inner}{body()}{other}{open_()} endfor {close()}"
    if pick < 0.90:
        return r.choice([f"{open_()} set y = {e()} {close()}{{{{ y }}}}", f"{open_()} set y {close()}{body()}{open_()} endset {close()}{{{{ y|length }}}}",
                         f"{open_()} set y, q = 1, {e()} {close()}{{{{ q }}}}", "{% set ns.n = 5 %}", f"{open_()} set s = {e()} {close()}",
                         f"{open_()} with g = {e()}, h = 2 {close()}{{{{ g }}}}{{{{ h }}}}{open_()} endwith {close()}"])
    return r.choice([
        f"{open_()} macro mm(a, b={e()}) {close()}{{{{ a }}}}|{{{{ b }}}}{body()}{open_()} endmacro {close()}{{{{ mm(1) }}}}{{{{ mm(b=2, a={e()}) }}}}",
        "{% macro c2(a) %}[{{ caller(a) }}]{% endmacro %}{% call(q) c2(3) %}<{{ q }}>{{ n }}{% endcall %}",
        "{% macro va() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ va(1, 2, k=3) }}",
        f"{open_()} filter upper {close()}{body()}abc{open_()} endfilter {close()}",
        f"{open_()} generation {close()}{body()}{open_()} endgeneration {close()}",
        f"{open_()} raw {close()}{{{{ x }}}} {{% if %}}{open_()} endraw {close()}"])


def drawn(seed, n):
    r = random.Random(seed)
    for i in range(n):
        if i % 2:
            source = "{{ " + expression(r, 3) + " }}"
        else:
            source = "{% set ns = namespace(n=0) %}" + "".join(statement(r, 2) for _ in range(r.randint(1, 4)))
        c = case(source, VALUES, "drawn")
        if i % 10 == 0 or "error" not in c and not (" at 0x" in c["text"] or "__class__" in source):
            yield c
    for source in RARE:
        yield case(source, VALUES, "rare")


with open(a.out, "w", encoding="utf-8") as out:
    n, values = 0, None
    for c in (of_files(a.files) if a.files else drawn(a.seed, a.n)):
        if c["values"] is values:
            del c["values"]
        else:
            values = c["values"]
        out.write(json.dumps(c, ensure_ascii=False) + "\n")
        n += 1
print(f"{n} cases in {a.out}")
