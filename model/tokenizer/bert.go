package tokenizer

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The properties of a code point that BERT's normalizer and pre-tokenizer use. The reference mixes several versions of
// Unicode, which unicode.json records.
type bertFlags uint8

const (
	bertRemoved     bertFlags = 1 << iota // controls, format characters, private use
	bertSpace                             // becomes a space
	bertCJK                               // stands alone as a word
	bertAccent                            // dropped with the accents
	bertPunctuation                       // stands alone as a word
)

var bertRanges = rangesOf(facts.Bert, map[string]bertFlags{"removed": bertRemoved, "whitespace": bertSpace,
	"cjk": bertCJK, "accent_removed": bertAccent, "punctuation": bertPunctuation})

var bertASCII = asciiOf(bertRanges)

// bertFolded maps a code point to its form without accents and in lower case, if that differs.
var bertFolded = sync.OnceValue(func() map[rune]string {
	points := func(hex string) (text string) {
		for field := range strings.FieldsSeq(hex) {
			n, err := strconv.ParseUint(field, 16, 32)
			if err != nil {
				panic(err) // embedded at build time
			}
			text += string(rune(n))
		}
		return text
	}
	folded := make(map[rune]string, len(facts.BertMap))
	for from, to := range facts.BertMap {
		r, _ := utf8.DecodeRuneInString(points(from))
		folded[r] = points(to)
	}
	return folded
})

// bertNormalizer cleans a text, separates CJK characters and, for uncased models, drops accents and capitals (Devlin et
// al. 2018).
type bertNormalizer struct {
	cjk    bool // spaces around CJK characters
	folded map[rune]string
}

func (b *bertNormalizer) normalize(text string) string {
	out := make([]byte, 0, len(text)+8)
	for at := 0; at < len(text); {
		if c := text[at]; c < utf8.RuneSelf {
			switch flags := bertASCII[c]; {
			case flags&bertRemoved != 0:
				at++
				continue
			case flags&bertSpace != 0:
				c = ' '
			case b.folded != nil && 'A' <= c && c <= 'Z':
				c += 'a' - 'A'
			}
			out = append(out, c)
			at++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[at:])
		at += size
		flags := search(bertRanges, r)
		if flags&bertRemoved != 0 { // also U+FFFD, which replaces bytes that are not UTF-8
			continue
		}
		apart := b.cjk && flags&bertCJK != 0
		if apart {
			out = utf8.AppendRune(out, ' ')
		}
		switch {
		case flags&bertSpace != 0:
			out = utf8.AppendRune(out, ' ')
		case b.folded == nil:
			out = utf8.AppendRune(out, r)
		case flags&bertAccent != 0:
		case r >= hangulFirst && r <= hangulLast:
			out = norm.NFD.AppendString(out, string(r))
		default:
			if folded, ok := b.folded[r]; ok {
				out = append(out, folded...)
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
		if apart {
			out = utf8.AppendRune(out, ' ')
		}
	}
	return string(out)
}

// Hangul syllables, which become their letters.
const hangulFirst, hangulLast = 0xac00, 0xd7a3

// nextBertWord returns the first word of a text: white space is skipped, a punctuation mark is a word.
func nextBertWord(text string) (from, to int) {
	for at := 0; at < len(text); {
		size := 1
		var flags bertFlags
		if text[at] < utf8.RuneSelf {
			flags = bertASCII[text[at]]
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(text[at:])
			flags = search(bertRanges, r)
		}
		if flags&(bertSpace|bertPunctuation) != 0 {
			if to > from {
				return from, to
			}
			if flags&bertPunctuation != 0 {
				return at, at + size
			}
			at += size
			from, to = at, at
			continue
		}
		at += size
		to = at
	}
	return from, to
}
