package quote

import (
	"regexp"
	"strings"
)

var plainWords = regexp.MustCompile(`^[\p{L}\p{N}_./,=:+%@-]+$`)

// Shell joins words to a command line that a POSIX shell splits into the same words.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plainWords.MatchString(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
