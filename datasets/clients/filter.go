package clients

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"popri/internal/fault"
)

// Filter takes parts out of texts, as appendix F of the POPri paper does with transcripts: procedural language and
// notation that nobody speaks (patterns), and sentences with few letters. The zero value takes nothing out.
type Filter struct {
	// NonLetters takes out sentences in which more than this fraction of the characters, white space aside, are no
	// letters; 0 takes none out. The paper's is 0.3.
	NonLetters float64 `json:"non_letters,omitempty"`
	// Drop are regular expressions (RE2) whose matches are taken out.
	Drop []string `json:"drop,omitempty"`

	patterns []*regexp.Regexp
}

func (f *Filter) validate() error {
	if !(f.NonLetters >= 0 && f.NonLetters < 1) {
		return fault.Userf("the fraction of characters that are no letters is %g, want at least 0 and below 1", f.NonLetters)
	}
	f.patterns = nil
	for _, text := range f.Drop {
		p, err := regexp.Compile(text)
		if err != nil {
			return fault.Userf("the pattern %q: %w", text, err)
		}
		if p.MatchString("") {
			return fault.Userf("the pattern %q matches the empty text", text)
		}
		f.patterns = append(f.patterns, p)
	}
	return nil
}

// apply returns what is left of a text, with white space around what was taken out made one space, and counts what was.
func (f *Filter) apply(text string, count *Filtered) string {
	changed := false
	for _, p := range f.patterns {
		if n := len(p.FindAllStringIndex(text, -1)); n > 0 {
			text = p.ReplaceAllLiteralString(text, " ")
			count.Matches += n
			changed = true
		}
	}
	if f.NonLetters > 0 {
		var kept []string
		for _, s := range sentences(text) {
			if letters, all := lettersOf(s); float64(all-letters) > f.NonLetters*float64(all) {
				count.Sentences++
				changed = true
				continue
			}
			kept = append(kept, s)
		}
		if changed {
			text = strings.Join(kept, "")
		}
	}
	if !changed {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

// Filtered counts what a filter took out.
type Filtered struct {
	Matches   int `json:"matches"`   // of patterns
	Sentences int `json:"sentences"` // with few letters
}

func (f Filtered) String() string {
	return fmt.Sprintf("%d matches of patterns and %d sentences with few letters were taken out of texts", f.Matches,
		f.Sentences)
}

// sentences cuts a text behind each line's end, and behind full stops, question and exclamation marks that white space
// follows. Joined, they are the text.
func sentences(text string) (list []string) {
	begin, ended := 0, false
	for i, r := range text {
		switch {
		case ended && !unicode.IsSpace(r):
			list = append(list, text[begin:i])
			begin, ended = i, false
		case r == '\n':
			ended = true
		case unicode.IsSpace(r) && i > begin:
			last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text[begin:i], `"'”’)]`))
			ended = ended || strings.ContainsRune(".?!…", last)
		}
	}
	return append(list, text[begin:])
}

func lettersOf(s string) (letters, all int) {
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			continue
		case unicode.IsLetter(r), unicode.IsMark(r):
			letters++
		}
		all++
	}
	return letters, all
}
