package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A splitter returns the length of the first word of a text that is not empty. Merges never cross words. The regular
// expressions need look-ahead, which Go's lack, and the order of their alternatives matters; each function below tries
// them in that order.
type splitter func(text string) int

// The regular expressions as tokenizer.json files spell them.
const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200kPattern  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var splits = map[Split]struct {
	pattern string // "" where the file says it otherwise
	cut     splitter
}{
	SplitGPT2:   {gpt2Pattern, splitGPT2},
	SplitDigits: {"", splitDigits},
	SplitLlama3: {llama3Pattern, func(text string) int { return splitLlama(text, 3) }},
	SplitO200K:  {o200kPattern, splitO200K},
	SplitQwen2:  {qwen2Pattern, func(text string) int { return splitLlama(text, 1) }},
}

// splitGPT2 follows gpt2Pattern.
func splitGPT2(text string) int {
	if text[0] == '\'' {
		if n := contraction(text, false); n > 0 {
			return n
		}
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	c, size := classAt(text[start:])
	if c == space {
		return spaceRun(text)
	}
	return runOf(c, text, start+size)
}

// splitDigits separates every digit (Digits with individual_digits) and splits the text between digits by gpt2Pattern,
// as SmolLM does. White space before a digit ends a part, so that it stays whole.
func splitDigits(text string) int {
	c, size := classAt(text)
	switch c {
	case number:
		return size
	case space:
		run := runOf(space, text, size)
		if run < len(text) {
			if next, _ := classAt(text[run:]); next == number {
				return run
			}
		}
	}
	return splitGPT2(text)
}

// splitO200K follows o200kPattern, of GPT-4o and Phi-4-mini: a word ends where a capital follows a small letter, and
// takes a contraction with it.
func splitO200K(text string) int {
	first, size := classAt(text)
	skips := first != letter && first != number && text[0] != '\r' && text[0] != '\n' && len(text) > size
	for _, alternative := range [...]int{smallAtEnd, capitalFirst} {
		if skips {
			if n := casedWord(text, size, alternative); n > 0 {
				return n
			}
		}
		if n := casedWord(text, 0, alternative); n > 0 {
			return n
		}
	}
	return splitRest(text, 3, "\r\n/")
}

// Which of the two alternatives for words casedWord tries.
const (
	smallAtEnd   = iota // any capitals, then at least one small letter
	capitalFirst        // at least one capital, then any small letters
)

// casedWord returns where the word that begins at start ends, with its contraction, or 0 if none begins there. Letters
// without case and marks count as capitals and as small letters.
func casedWord(text string, start, alternative int) int {
	capitals, both := start, -1 // the end of the capitals, and the index of the last one that is a small letter as well
	for capitals < len(text) {
		c, size := caseAt(text[capitals:])
		if c&capital == 0 {
			break
		}
		if c&small != 0 {
			both = capitals
		}
		capitals += size
	}
	end := smallRun(text, capitals)
	switch {
	case alternative == smallAtEnd && end == capitals && both >= 0:
		end = smallRun(text, both) // one that was taken for a capital is the small letter
	case alternative == smallAtEnd && end == capitals, alternative == capitalFirst && capitals == start:
		return 0
	}
	if end < len(text) && text[end] == '\'' {
		end += contraction(text[end:], true)
	}
	return end
}

func smallRun(text string, at int) int {
	for at < len(text) {
		c, size := caseAt(text[at:])
		if c&small == 0 {
			break
		}
		at += size
	}
	return at
}

// splitLlama follows llama3Pattern, with numbers of at most maxDigits characters.
func splitLlama(text string, maxDigits int) int {
	if text[0] == '\'' {
		if n := contraction(text, true); n > 0 {
			return n
		}
	}
	first, size := classAt(text)
	if first == letter {
		return runOf(letter, text, size)
	}
	newline := text[0] == '\r' || text[0] == '\n'
	if first != number && !newline && len(text) > size {
		if c, n := classAt(text[size:]); c == letter {
			return runOf(letter, text, size+n)
		}
	}
	return splitRest(text, maxDigits, "\r\n")
}

// splitRest follows what the patterns have after words: numbers of at most maxDigits characters, signs with the given
// ones behind them, and white space.
func splitRest(text string, maxDigits int, behind string) int {
	first, size := classAt(text)
	if first == number {
		end := size
		for digits := 1; digits < maxDigits && end < len(text); digits++ {
			c, n := classAt(text[end:])
			if c != number {
				break
			}
			end += n
		}
		return end
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	if c, n := classAt(text[start:]); c == other {
		end := runOf(other, text, start+n)
		for end < len(text) && strings.IndexByte(behind, text[end]) >= 0 {
			end++
		}
		return end
	}
	// \s*[\r\n]+ : up to the last line break of the white space.
	run := runOf(space, text, size)
	for end := run; end > 0; end-- {
		if text[end-1] == '\r' || text[end-1] == '\n' {
			return end
		}
	}
	return spaceRun(text)
}

// runOf returns the end of the run of code points of one class that begins at start.
func runOf(c class, text string, start int) int {
	for start < len(text) {
		next, size := classAt(text[start:])
		if next != c {
			break
		}
		start += size
	}
	return start
}

// spaceRun follows \s+(?!\S)|\s+ at white space. At the end of the text it takes all of it; elsewhere all but its last
// character, which joins the next word or is a word; a single character is taken as it is.
func spaceRun(text string) int {
	end := runOf(space, text, 0)
	if end == len(text) {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(text[:end])
	if last < end {
		return end - last
	}
	return end
}

// contraction returns the length of an English contraction at the start of text ('s 't 're 've 'm 'll 'd), or 0.
// Ignoring case, the long s (U+017F) is an s too.
func contraction(text string, ignoreCase bool) int {
	if len(text) < 2 {
		return 0
	}
	if ignoreCase && len(text) >= 3 && text[1:3] == "ſ" {
		return 3
	}
	at := func(i int) byte {
		if i >= len(text) {
			return 0
		}
		if ignoreCase && 'A' <= text[i] && text[i] <= 'Z' {
			return text[i] + 'a' - 'A'
		}
		return text[i]
	}
	switch at(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if at(2) == 'e' {
			return 3
		}
	case 'l':
		if at(2) == 'l' {
			return 3
		}
	}
	return 0
}
