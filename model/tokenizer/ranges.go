package tokenizer

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"
)

// unicodeFacts are what the reference makes of code points, as testdata/golden/tokenizers/unicode.json has it:
//
//	jq -c '{regex: (.regex | {L, N, s}), bert: (.bert | {removed, whitespace, cjk, accent_removed, punctuation}), bert_map}'
//
// and the classes upper ([\p{Lu}\p{Lt}]), lower and M, which scripts/tokenizer_cases.py --classes adds.
//
//go:embed unicode.json
var unicodeFacts []byte

// facts has for each class of code points its ranges, from the first to the last one, and for code points in
// hexadecimal what they become without accents and in lower case.
var facts = func() (f struct {
	Regex   map[string][][2]rune
	Bert    map[string][][2]rune
	BertMap map[string]string `json:"bert_map"`
}) {
	if err := json.Unmarshal(unicodeFacts, &f); err != nil {
		panic(err) // embedded at build time
	}
	return f
}()

// runeRange gives the code points from first to last a value.
type runeRange[T any] struct {
	first, last rune
	value       T
}

// rangesOf returns, in ascending order, the ranges of all classes with the bits of their values. The ranges of one
// class do not overlap; where ranges of several do, the bits of all are set.
func rangesOf[T ~uint8](classes map[string][][2]rune, values map[string]T) (all []runeRange[T]) {
	flips := map[rune]T{} // bits that begin or end at a code point
	for name, ranges := range classes {
		for _, r := range ranges {
			flips[r[0]] ^= values[name]
			flips[r[1]+1] ^= values[name]
		}
	}
	var value T
	for _, r := range slices.Sorted(maps.Keys(flips)) {
		if value != 0 {
			all[len(all)-1].last = r - 1
		}
		if value ^= flips[r]; value != 0 {
			all = append(all, runeRange[T]{first: r, value: value})
		}
	}
	return all
}

// search returns the value of r by ascending ranges, the zero value where it is in none.
func search[T any](ranges []runeRange[T], r rune) (none T) {
	low, high := 0, len(ranges)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := &ranges[mid]; {
		case r < c.first:
			high = mid
		case r > c.last:
			low = mid + 1
		default:
			return c.value
		}
	}
	return none
}

// asciiOf returns the values of ASCII as a table.
func asciiOf[T any](ranges []runeRange[T]) (table [utf8.RuneSelf]T) {
	for r := range rune(utf8.RuneSelf) {
		table[r] = search(ranges, r)
	}
	return table
}
