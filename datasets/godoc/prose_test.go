package godoc

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestProse(t *testing.T) {
	for _, c := range []struct {
		name, source string
		want         []string
	}{
		{"doc comment",
			"// Reader reads lines, one after the other, until the underlying source\n// has no more to give, and " +
				"then it stops.\n",
			[]string{"Reader reads lines, one after the other, until the underlying source has no more to give, and " +
				"then it stops."}},
		{"too short", "// Reader reads lines until the end.\n", nil},
		{"block comment and link",
			"/* The [Reader] of this package hands out lines in the order in which they\nwere written by the other " +
				"side. */\n",
			[]string{"The Reader of this package hands out lines in the order in which they were written by the " +
				"other side."}},
		{"licence",
			"// Copyright 2020 Somebody. All rights reserved. Use of this source code is governed by the rules in a " +
				"file.\n", nil},
		{"code switched off",
			"// if x := f(); x != nil {\n// \treturn x.first, x.second, x.third, x.fourth, x.fifth, x.sixth\n// " +
				"}\n// g(a, b, c, d, e)\n", nil},
		{"indented code goes, list stays",
			"// The steps that are taken by the reader in order, for every line:\n//   - first it looks for the " +
				"end\n//   - then it copies what is there\n//\n//\tx := reader.Next()\n//\n// # Heading\n",
			[]string{"The steps that are taken by the reader in order, for every line: first it looks for the end " +
				"then it copies what is there"}},
		{"table", "// 0x00 0x01 0x02 a==b c==d 0x05 0x06 x+y 0x08 0x09 a[i] b[j] 0x0c\n", nil},
		{"directive", "//go:generate stringer -type=T one two three four five six seven eight nine ten eleven twelve\n",
			nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _ := parser.ParseFile(token.NewFileSet(), "x.go", c.source+"package x\n", parser.ParseComments)
			if f == nil || len(f.Comments) != 1 {
				t.Fatalf("%q is not one comment", c.source)
			}
			if got := prose(f.Comments[0]); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSpansCutAtSentences(t *testing.T) {
	sentence := strings.Fields("This is one sentence of exactly ten words, no more.")
	var words []string
	for range 13 {
		words = append(words, sentence...)
	}
	got := spans(words)
	if len(got) != 3 || len(got[0]) != 50 || len(got[1]) != 50 || len(got[2]) != 30 {
		t.Errorf("13 sentences of 10 words gave %d spans: %q", len(got), got)
	}
	if got := spans(strings.Fields(strings.Repeat("word ", maxWords+minWords-1))); len(got) != 1 ||
		len(got[0]) != maxWords {
		t.Errorf("a tail that is too short was kept: %q", got)
	}
}

func FuzzProse(f *testing.F) {
	f.Add("Reader reads lines, one after the other, until the underlying source has no more to give.")
	f.Add("- a\n  b [c]: d\n\tcode(x)\n# e")
	f.Fuzz(func(t *testing.T, comment string) {
		file, _ := parser.ParseFile(token.NewFileSet(), "x.go", "/*"+comment+"*/\npackage x\n", parser.ParseComments)
		if file == nil {
			return
		}
		for _, group := range file.Comments {
			for _, text := range prose(group) {
				words := strings.Fields(text)
				if text != strings.Join(words, " ") || len(words) < minWords || len(words) > maxWords {
					t.Errorf("not a line of prose: %q", text)
				}
			}
		}
	})
}
