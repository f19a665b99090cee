package godoc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// minWords is the length of the shortest comment that is kept. Shorter comments ("returns true") say little and
	// occur everywhere.
	minWords = 12
	// minPlain is the least fraction of plain words in prose; tables, formulas and code have less.
	minPlain = 0.62
	// maxWords is the length of the longest text: about 64 tokens of a small vocabulary, the length of the samples.
	maxWords = 50
)

// prose turns one comment group into texts of minWords to maxWords words, or none if it is not prose.
func prose(group *ast.CommentGroup) []string {
	raw := group.Text() // without markers and //go: directives
	if len(strings.Fields(raw)) < minWords || !utf8.ValidString(raw) || unwanted(raw) || isCode(raw) {
		return nil
	}
	words := strings.Fields(norm.NFC.String(flatten(raw)))
	if len(words) < minWords || plainShare(words) < minPlain {
		return nil
	}
	var texts []string
	for _, span := range spans(words) {
		if plainShare(span) >= minPlain {
			texts = append(texts, strings.Join(span, " "))
		}
	}
	return texts
}

// unwantedMarks, in lower case, mark licences, build lines, editor settings and cgo preambles.
var unwantedMarks = []string{"copyright", "license", "all rights reserved", "permission is hereby granted",
	"redistribution and use", "warranties of", "do not edit", "+build ", "go:build", "#include", "#define", "-*-"}

func unwanted(raw string) bool {
	lower := strings.ToLower(raw)
	marked := func(mark string) bool { return strings.Contains(lower, mark) }
	return slices.ContainsFunc(unwantedMarks, marked) || strings.ContainsFunc(raw, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

// isCode recognises a comment that is disabled Go code: it parses as statements or declarations.
func isCode(raw string) bool {
	if !strings.ContainsAny(raw, "=(){};:") {
		return false // prose never parses, so the parser is not called
	}
	files := token.NewFileSet()
	if _, err := parser.ParseFile(files, "", "package p\nfunc _() {\n"+raw+"\n}", parser.SkipObjectResolution); err == nil {
		return true
	}
	_, err := parser.ParseFile(files, "", "package p\n"+raw, parser.SkipObjectResolution)
	return err == nil
}

var (
	linkDefinition = regexp.MustCompile(`^\[[^\]]+\]: +\S+$`)
	listMarker     = regexp.MustCompile(`^([-*•+] +|\(?[0-9a-z][.)] +)`)
	docLink        = regexp.MustCompile(`(^|[\s("])\[(\*?\pL[\pL\pN_./]*)\]`)
)

// flatten keeps a comment's prose: it removes indented code blocks, headings, rules and link definitions, and strips
// list markers and the brackets of documentation links.
func flatten(raw string) string {
	var kept []string
	inList := false
	for line := range strings.Lines(raw) {
		text := strings.TrimSpace(line)
		if text == "" {
			continue
		}
		indented := line[0] == '\t' || strings.HasPrefix(line, "  ")
		marker := listMarker.FindString(text)
		switch {
		case text[0] == '#', linkDefinition.MatchString(text):
			continue
		case marker != "":
			text = text[len(marker):]
			inList = true
		case !indented:
			inList = false
		}
		// An indented line that does not continue a list item is preformatted: code, examples, tables.
		if words := strings.Fields(text); indented && (!inList && marker == "" || plainShare(words) < minPlain) {
			continue
		}
		kept = append(kept, text)
	}
	prose := strings.Join(kept, " ")
	if strings.Contains(prose, "[") {
		prose = docLink.ReplaceAllString(prose, "$1$2")
	}
	return prose
}

// plainShare is the fraction of plain words: letters in lower case, with a leading capital or all capitals, with
// punctuation around them and hyphens or apostrophes between.
func plainShare(words []string) float64 {
	if len(words) == 0 {
		return 0
	}
	n := 0
	for _, w := range words {
		if plain(w) {
			n++
		}
	}
	return float64(n) / float64(len(words))
}

func plain(word string) bool {
	word = strings.Trim(word, ".,;:!?()\"'`“”‘’[]")
	if word == "" {
		return false
	}
	upper, lower := 0, 0
	for i, r := range word {
		switch {
		case unicode.IsUpper(r):
			if lower > 0 && i > 0 && word[i-1] != '-' { // camelCase
				return false
			}
			upper++
		case unicode.IsLetter(r):
			lower++
		case r == '-' || r == '\'' || r == '’':
		default:
			return false
		}
	}
	return lower > 0 || upper > 0
}

// spans cuts words into pieces of at most maxWords, at ends of sentences if possible. A rest below minWords is dropped.
func spans(words []string) [][]string {
	var out [][]string
	for len(words) > maxWords {
		cut := maxWords
		for n := maxWords; n >= minWords; n-- {
			if sentenceEnd(words[n-1], words[n]) {
				cut = n
				break
			}
		}
		out = append(out, words[:cut])
		words = words[cut:]
	}
	if len(words) >= minWords {
		out = append(out, words)
	}
	return out
}

func sentenceEnd(word, next string) bool {
	word = strings.TrimRight(word, `)"'”`)
	abbreviations := []string{"e.g.", "i.e.", "etc.", "cf.", "vs."}
	if strings.TrimRight(word, ".?!:") == word || slices.Contains(abbreviations, word) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(next, `("'“`))
	return !unicode.IsLower(first)
}
