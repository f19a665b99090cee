package datasets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestChunk(t *testing.T) {
	for _, c := range []struct {
		text string
		max  int
		want []string
	}{
		{"", 3, nil},
		{" \n\t", 3, nil},
		{"a", 1, []string{"a"}},
		{"a b c", 3, []string{"a b c"}},
		{"a  b\nc d", 3, []string{"a  b\nc", "d"}},
		{"\u00a0def f():\r\n\treturn f\n", 9, []string{"def f():\r\n\treturn f"}},
		{"a b c d e f g", 2, []string{"a b", "c d", "e f", "g"}},
	} {
		if got := Chunk(c.text, CountWords, c.max); !slices.Equal(got, c.want) {
			t.Errorf("Chunk(%q, words, %d) = %q, want %q", c.text, c.max, got, c.want)
		}
	}
}

func TestChunkKeepsWordsAndIsGreedy(t *testing.T) {
	letters := func(s string) int { return len(s) }
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		words := make([]string, random.IntN(60))
		for i := range words {
			words[i] = strings.Repeat("x", 1+random.IntN(12))
		}
		max := 1 + random.IntN(40)
		spans := Chunk(strings.Join(words, " "), letters, max)
		if got := strings.Fields(strings.Join(spans, " ")); !slices.Equal(got, words) {
			t.Fatalf("spans of %q give %q", words, got)
		}
		first := ""
		if len(spans) > 0 {
			first = spans[0]
		}
		if got := First(strings.Join(words, " "), letters, max); got != first {
			t.Fatalf("the first span is %q, First gives %q", first, got)
		}
		for i, s := range spans {
			if len(s) > max && strings.Contains(s, " ") {
				t.Fatalf("span %q is longer than %d", s, max)
			}
			if i+1 < len(spans) {
				next, _, _ := strings.Cut(spans[i+1], " ")
				if len(s)+1+len(next) <= max {
					t.Fatalf("%q could have taken %q within %d", s, next, max)
				}
			}
		}
	}
}

func TestChunkPanicsWithoutRoom(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Chunk with max 0 did not panic")
		}
	}()
	Chunk("a", CountWords, 0)
}

func ExampleChunk() {
	fmt.Printf("%q\n", Chunk("a tree of six small words", CountWords, 4))
	// Output: ["a tree of six" "small words"]
}
