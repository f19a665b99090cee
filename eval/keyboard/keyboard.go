// Package keyboard suggests words as a telephone's keyboard does, and counts the keystrokes that the suggestions save.
//
// Before each word, and after each letter of it, the keyboard shows the [Shown] likeliest words of the small model that
// begin with what was typed. A word is one token of the vocabulary: a space and letters. Words of several tokens are
// typed. The model is asked once before each word; its distribution is narrowed to the letters that were typed.
package keyboard

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"popri/model/tokenizer"
)

// Shown is the number of suggestions.
const Shown = 3

// Keyboard has the words of a vocabulary.
type Keyboard struct {
	tokenizer *tokenizer.Tokenizer
	words     []word // sorted by their text
}

type word struct {
	text string
	id   int32
}

// New finds the words of a vocabulary.
func New(tok *tokenizer.Tokenizer) *Keyboard {
	k := &Keyboard{tokenizer: tok}
	for id := range int32(tok.VocabSize()) {
		if text, ok := strings.CutPrefix(k.text(id), " "); ok && !tok.IsSpecial(id) && text != "" && letters(text) == text {
			k.words = append(k.words, word{text, id})
		}
	}
	slices.SortFunc(k.words, func(a, b word) int { return cmp.Or(strings.Compare(a.text, b.text), int(a.id-b.id)) })
	return k
}

// text is a token as it stands within a text.
func (k *Keyboard) text(id int32) string {
	return k.tokenizer.DecodeAfter([]int32{id}, []int32{id}, true)
}

// letters are the letters, marks and apostrophes that a text begins with.
func letters(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\'' && r != '’' || r == utf8.RuneError
	})
	if end < 0 {
		return text
	}
	return text[:end]
}

// Suggest returns the [Shown] likeliest words that begin with what was typed, the likeliest first. logits are of the
// next token, over the vocabulary.
func (k *Keyboard) Suggest(logits []float32, typed string) (suggested []string) {
	for _, w := range k.likeliest(logits, typed) {
		suggested = append(suggested, w.text)
	}
	return suggested
}

func (k *Keyboard) likeliest(logits []float32, typed string) (best []word) {
	from, _ := slices.BinarySearchFunc(k.words, typed, func(w word, typed string) int { return strings.Compare(w.text, typed) })
	for _, w := range k.words[from:] {
		if !strings.HasPrefix(w.text, typed) {
			break
		}
		if len(best) == Shown && logits[w.id] <= logits[best[Shown-1].id] {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, w, func(a, b word) int { return cmp.Compare(logits[b.id], logits[a.id]) })
		best = slices.Insert(best, at, w)
		best = best[:min(len(best), Shown)]
	}
	return best
}

// Begins returns the word that begins with token i of a text's tokens; "" if none does.
func (k *Keyboard) Begins(ids []int32, i int) string {
	first, ok := strings.CutPrefix(k.text(ids[i]), " ")
	if !ok {
		return ""
	}
	text := letters(first)
	for i++; i < len(ids) && text == first && text != ""; i++ { // the word may go on in the next token
		next := k.text(ids[i])
		first += next
		text += letters(next)
	}
	return text
}

// Saved is the number of keystrokes that suggestions save in a word before which the model has these logits. To choose a
// suggestion takes one keystroke and types the space after the word, too.
func (k *Keyboard) Saved(logits []float32, text string) int {
	typed := 0
	for at := range text {
		for _, w := range k.likeliest(logits, text[:at]) {
			if w.text == text {
				return utf8.RuneCountInString(text) - typed
			}
		}
		typed++
	}
	return 0
}
