package tokenizer

import "unicode/utf8"

// class is the class of a code point for the split.
type class uint8

const (
	other class = iota
	letter
	number
	space
)

// classRanges are the code points that the split distinguishes; all others are of class other.
var classRanges = rangesOf(facts.Regex, map[string]class{"L": letter, "N": number, "s": space})

// cased says whether a code point counts as a capital, as a small letter, or as both.
type cased uint8

const (
	capital cased = 1 << iota
	small
)

// caseRanges are the letters and marks by case. Letters without case, and marks, are both.
var caseRanges = rangesOf(facts.Regex, map[string]cased{"upper": capital, "lower": small, "M": capital | small})

var asciiCase = asciiOf(caseRanges)

// caseAt returns the case and the length of the code point at the start of s, which is not empty.
func caseAt(s string) (cased, int) {
	if s[0] < utf8.RuneSelf {
		return asciiCase[s[0]], 1
	}
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		return 0, 1
	}
	c := search(caseRanges, r)
	if c == 0 && search(classRanges, r) == letter {
		c = capital | small
	}
	return c, size
}

// asciiClass answers for most text without a search.
var asciiClass = asciiOf(classRanges)

// classAt returns the class and the length of the code point at the start of s, which is not empty: the class by
// Unicode 16, as in the reference's regular expressions: \p{L}, \p{N} and \s. Go's own tables are of another Unicode
// version, which changes with Go's. A byte that is not UTF-8 is of class other and one byte long.
func classAt(s string) (class, int) {
	if s[0] < utf8.RuneSelf {
		return asciiClass[s[0]], 1
	}
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		return other, 1
	}
	return search(classRanges, r), size
}
