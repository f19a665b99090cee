package datasets

import (
	"fmt"
	"strings"
)

// CountWords counts words, separated by white space.
func CountWords(text string) int { return len(strings.Fields(text)) }

// Chunk cuts text into successive spans that count measures at max or less. Each span has as many whole words as fit,
// without regard to sentences, and keeps the white space between its words. count is usually a tokenizer's number of
// tokens; it must not fall when words are added. A single word above max is a span of its own, because cutting inside a
// word would invent text. The white space between two spans belongs to neither; blank text gives no span. Chunk panics
// if max < 1.
func Chunk(text string, count func(string) int, max int) []string {
	if max < 1 {
		panic(fmt.Sprintf("datasets: chunks of at most %d tokens", max))
	}
	words := wordsOf(text)
	var spans []string
	for len(words) > 0 {
		n := longest(text, words, count, max)
		spans = append(spans, text[words[0].from:words[n-1].to])
		words = words[n:]
	}
	return spans
}

// First returns the first span that [Chunk] makes, "" for blank text.
func First(text string, count func(string) int, max int) string {
	words := wordsOf(text)
	if len(words) == 0 {
		return ""
	}
	return text[words[0].from:words[longest(text, words, count, max)-1].to]
}

// word is the range of a word's bytes in its text.
type word struct{ from, to int }

// wordsOf finds the words of [strings.Fields].
func wordsOf(text string) []word {
	var words []word
	at := 0
	for field := range strings.FieldsSeq(text) {
		from := at + strings.Index(text[at:], field)
		at = from + len(field)
		words = append(words, word{from, at})
	}
	return words
}

// longest finds by doubling and bisection how many leading words fit, at least one.
func longest(text string, words []word, count func(string) int, max int) int {
	fits := func(n int) bool { return count(text[words[0].from:words[n-1].to]) <= max }
	low, high := 1, 2
	for high <= len(words) && fits(high) {
		low, high = high, 2*high
	}
	if high > len(words) {
		if fits(len(words)) {
			return len(words)
		}
		high = len(words)
	}
	for low+1 < high { // low fits or is one word, high does not fit
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
