// Package plural writes numbers with their nouns.
package quote

import "fmt"

// Count is a number with its noun: "1 round", "2 rounds". many is the noun's plural; "" adds an s.
func Count(n int, one, many string) string { return fmt.Sprintf("%d %s", n, Plural(n, one, many)) }

// Plural is the word that goes with a number: one with 1, and many, or one with an s, with any other.
func Plural(n int, one, many string) string {
	switch {
	case n == 1:
		return one
	case many == "":
		return one + "s"
	}
	return many
}
