package tokenizer

import "unicode/utf8"

// clusterFlags are the properties of a code point that decide where a grapheme cluster, what a reader takes for one
// character, ends.
type clusterFlags uint16

const (
	clusterControl   clusterFlags = 1 << iota // stands alone
	clusterExtend                             // joins what is before it
	clusterJoiner                             // U+200D, which also joins two pictures
	clusterSpacing                            // joins what is before it
	clusterPrepend                            // joins what follows
	clusterRegional                           // two make a flag
	clusterLeading                            // Hangul's letters L, V and T
	clusterVowel                              //
	clusterTrailing                           //
	clusterPicture                            // an emoji
	clusterConsonant                          // consonants of Indic scripts; a linker between two makes one conjunct
	clusterLinker                             //
)

type clusterRange = runeRange[clusterFlags]

var clusterASCII = asciiOf(clusterRanges[:])

const clusterJoins = clusterExtend | clusterJoiner | clusterSpacing

func clusterOf(r rune) clusterFlags {
	switch {
	case r < utf8.RuneSelf:
		return clusterASCII[r]
	case r >= hangulFirst && r <= hangulLast:
		if (r-hangulFirst)%28 == 0 { // a syllable LV, which another vowel may follow
			return clusterVowel
		}
		return clusterTrailing
	}
	return search(clusterRanges[:], r)
}

// clusterEnd returns the end of the first grapheme cluster of a text, which is not empty (Unicode Standard Annex #29,
// extended clusters).
func clusterEnd(text string) int {
	r, at := utf8.DecodeRuneInString(text)
	before := clusterOf(r)
	first := r
	picture := before&clusterPicture != 0     // a picture and what extends it
	consonant := before&clusterConsonant != 0 // a consonant and what extends it
	linked, flag := false, before&clusterRegional != 0
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		next := clusterOf(r)
		switch {
		case first == '\r' && r == '\n' && at == 1:
		case (before|next)&clusterControl != 0:
			return at
		case next&clusterJoins != 0, before&clusterPrepend != 0:
		case before&clusterLeading != 0 && (next&(clusterLeading|clusterVowel) != 0 || r >= hangulFirst && r <= hangulLast):
		case before&clusterVowel != 0 && next&(clusterVowel|clusterTrailing) != 0 && (r < hangulFirst || r > hangulLast):
		case before&clusterTrailing != 0 && next&clusterTrailing != 0 && (r < hangulFirst || r > hangulLast):
		case consonant && linked && next&clusterConsonant != 0:
		case picture && before&clusterJoiner != 0 && next&clusterPicture != 0:
		case flag && next&clusterRegional != 0:
			next = 0 // the pair is complete
		default:
			return at
		}
		extends := next&(clusterExtend|clusterJoiner) != 0
		picture = next&clusterPicture != 0 || picture && extends
		flag = next&clusterRegional != 0
		switch {
		case next&clusterConsonant != 0:
			consonant, linked = true, false
		case next&clusterLinker != 0:
			linked = consonant
		case !extends || r == '\u200c': // a non-joiner ends the conjunct
			consonant, linked = false, false
		}
		before = next
		at += size
	}
	return at
}
