package embedding

import (
	"math"
	"strings"
	"unicode"
)

// Measure is one of the measures of form, with its mean and deviation over short texts of many kinds: constants, so
// that nobody has to fit them, and far from none of the kinds.
type Measure struct {
	Name      string
	Mean, Std float64
}

// LineBreaks names the measure of line breaks, by word.
const LineBreaks = "line breaks"

// FormMeasures are the measures of form, in their order. Shares are of words unless the name says otherwise.
var FormMeasures = []Measure{
	{"letters in capitals, of letters", 0.04, 0.05},
	{"texts without a capital", 0.1, 0.3},
	{"words that begin with a capital", 0.15, 0.12},
	{"words in capitals", 0.02, 0.05},
	{"words with a digit", 0.03, 0.07},
	{"full stops", 0.06, 0.05},
	{"commas", 0.06, 0.05},
	{"colons and semicolons", 0.015, 0.03},
	{"question marks", 0.008, 0.025},
	{"exclamation marks", 0.005, 0.02},
	{"quotation marks", 0.015, 0.035},
	{"apostrophes", 0.02, 0.03},
	{"hyphens and dashes", 0.02, 0.04},
	{"brackets", 0.015, 0.04},
	{"slashes", 0.008, 0.03},
	{"other signs", 0.015, 0.04},
	{"signs beyond ASCII", 0.005, 0.02},
	{LineBreaks, 0.01, 0.03},
	{"texts that begin with a small letter", 0.3, 0.45},
	{"texts that begin with a sign or digit", 0.05, 0.22},
	{"texts that end a sentence", 0.5, 0.5},
	{"letters of a word", 4.4, 0.6},
	{"logarithm of the number of words", 3.4, 0.7},
	{"logarithm of the words of a sentence", 2.8, 0.6},
	{"different words, of all", 0.85, 0.09},
	{"texts of fewer than 8 words", 0.1, 0.3},
	{"texts of fewer than 16 words", 0.25, 0.43},
	{"texts of fewer than 24 words", 0.35, 0.48},
	{"texts of fewer than 32 words", 0.45, 0.5},
	{"texts of fewer than 48 words", 0.55, 0.5},
}

// ShortTexts are the lengths in words of the last of [FormMeasures], which are the fractions of texts that are shorter.
var ShortTexts = []int{8, 16, 24, 32, 48}

// Range is where the mean of a measure over texts can be, with the bound that [Joined] puts on each text's.
func (m Measure) Range() (least, most float64) {
	least, most = max(0, m.Mean-mostDeviations*m.Std), m.Mean+mostDeviations*m.Std
	if strings.HasPrefix(m.Name, "texts ") { // their fraction
		most = min(1, most)
	}
	return least, most
}

// mostDeviations bounds a measure, so that no single text or measure outweighs the others.
const mostDeviations = 4

// measure writes the weighted measures of a text into row.
func (j *Joined) measure(row []float32, text string) {
	measures, ok := measureForm(text)
	if !ok {
		return
	}
	for i, m := range FormMeasures {
		d := (measures[i] - m.Mean) / m.Std
		row[i] = float32(j.Unit() * min(max(d, -mostDeviations), mostDeviations))
	}
}

// measureForm returns the measures of a text in the order of [FormMeasures], and false if it has no words.
func measureForm(text string) (measures []float64, ok bool) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, false
	}
	var letters, capitals, stops, commas, colons, questions, exclamations, quotes, apostrophes, hyphens, brackets,
		slashes, others, far,
		lines float64
	for _, r := range strings.TrimSpace(text) {
		if r > unicode.MaxASCII {
			far++
		}
		switch {
		case unicode.IsLetter(r):
			letters++
			if unicode.IsUpper(r) {
				capitals++
			}
		case r == '\n':
			lines++
		case unicode.IsSpace(r) || unicode.IsDigit(r):
		case r == '.':
			stops++
		case r == ',':
			commas++
		case r == ':' || r == ';':
			colons++
		case r == '?':
			questions++
		case r == '!':
			exclamations++
		case strings.ContainsRune(`"“”„«»`, r):
			quotes++
		case strings.ContainsRune("'’‘`", r):
			apostrophes++
		case strings.ContainsRune("-–—", r):
			hyphens++
		case strings.ContainsRune("()[]{}<>", r):
			brackets++
		case r == '/' || r == '\\':
			slashes++
		default:
			others++
		}
	}
	n := float64(len(words))
	var begun, shouted, numbered, sentences float64
	different := map[string]bool{}
	for _, w := range words {
		first := []rune(w)[0]
		begun += yes(unicode.IsUpper(first))
		shouted += yes(len(w) > 1 && w == strings.ToUpper(w) && w != strings.ToLower(w))
		numbered += yes(strings.ContainsFunc(w, unicode.IsDigit))
		sentences += yes(ends(w))
		different[strings.ToLower(w)] = true
	}
	first := []rune(words[0])[0]
	measures = []float64{
		capitals / max(letters, 1), yes(capitals == 0), begun / n, shouted / n, numbered / n,
		stops / n, commas / n, colons / n, questions / n, exclamations / n, quotes / n, apostrophes / n, hyphens / n,
		brackets / n,
		slashes / n, others / n, far / n, lines / n,
		yes(unicode.IsLower(first)), yes(!unicode.IsLetter(first)), yes(ends(words[len(words)-1])),
		letters / n, math.Log(1 + n), math.Log(1 + n/max(sentences, 1)), float64(len(different)) / n,
	}
	for _, length := range ShortTexts {
		measures = append(measures, yes(len(words) < length))
	}
	return measures, true
}

// ends reports whether a word ends a sentence, perhaps before a closing quotation mark or bracket.
func ends(word string) bool {
	word = strings.TrimRight(word, `"'”’)]»`)
	return word != "" && strings.ContainsAny(word[len(word)-1:], ".!?")
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
