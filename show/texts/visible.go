package texts

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible makes a text of unknown origin safe to show: valid UTF-8 of at most limit characters, in which control
// characters and those that change the direction of writing are named instead of carried out. Line ends and tabs stay.
// A limit of 0 or less cuts nothing.
func Visible(text string, limit int) string {
	var b strings.Builder
	n := 0
	for i, r := range text {
		if limit > 0 && n == limit {
			rest := utf8.RuneCountInString(text[i:])
			fmt.Fprintf(&b, "… (%d more characters)", rest)
			break
		}
		n++
		switch {
		case r == '\n', r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029', r == '\ufeff':
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r) // an invalid byte is ranged over as U+FFFD
		}
	}
	return b.String()
}
