package main

import (
	"slices"
	"strings"
	"testing"
)

func TestProse(t *testing.T) {
	s, err := parseStyle([]byte("# x\nwords of a sentence: 3\nwords of a usual sentence: 2\nwords of a paragraph: 6\n" +
		"words of a usual paragraph: 4\ncolumns of a table: 2\nbanned: told apart|anew\nbanned in comments: lies\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"words: 3", "words of a sentence: x", "banned: ("} {
		if _, err := parseStyle([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	p := page{style: s, name: "x"}
	p.read("# A heading has as many words as it likes\nOne `b c d` two.\nOne two three four!\n\n- One.\n- It is anew.\n\n" +
		"| a | b |\n|---|---|\n| one two three [four](x) | `a|b` |\n\n| a | b | c |\n|---|---|---|\n\n" +
		"One two. One two. One two.\nThree.\n```\nTold apart and more words that are code.\n```\n")
	want := []string{"x:2: a paragraph of 7", "x:2: a sentence of 4", `x:6: "anew"`, "x:10: a sentence of 4",
		"x:13: a table of 3 columns", "x:15: a paragraph of 7"}
	if !slices.EqualFunc(p.wrong, want, strings.HasPrefix) || p.wordy != 2 {
		t.Errorf("%q, %d", p.wrong, p.wordy)
	}
	for want, content := range map[string]string{
		"x.go:1 x.go:4 x.go:3 x.go:7": "package x // anew\n\n// It lies there,\n// told\n// apart.\nconst y = `\n` + \"told apart lies\"\n",
		"x_test.go:1":                 "package x // anew\n\nconst y = \"told apart\"\n",
		"x.cu:2":                      "int a; /* a\n * lies */",
		"x.html:3":                    "<p>\n\n<b>Anew, lies</b>",
	} {
		name, _, _ := strings.Cut(want, ":")
		p := page{style: s, name: name}
		p.output([]byte(content))
		if !slices.EqualFunc(p.wrong, strings.Fields(want), strings.HasPrefix) {
			t.Errorf("%q, want %s", p.wrong, want)
		}
	}
}
