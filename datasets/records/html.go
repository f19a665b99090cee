package records

import (
	"html"
	"regexp"
)

var (
	unseen = regexp.MustCompile(`(?is)<!--.*?(-->|$)|<(script|style|head|template)\b.*?(</(script|style|head|template)\s*>|$)`)
	blocks = regexp.MustCompile(`(?is)</?(address|article|aside|blockquote|body|br|dd|div|dl|dt|figure|footer|h[1-6]|header|hr|li|main|nav|ol|` +
		`p|pre|section|table|td|th|tr|ul)\b[^>]*>`)
	tags = regexp.MustCompile(`(?s)</?[a-zA-Z][^>]*>|<[!?][^>]*>`)
)

// PlainText returns what a page of HTML shows: without tags, scripts, styles, comments and its head, entities as
// characters, a blank line where a block begins or ends.
func PlainText(page string) string {
	page = unseen.ReplaceAllString(page, " ")
	page = blocks.ReplaceAllString(page, "\n\n")
	return html.UnescapeString(tags.ReplaceAllString(page, ""))
}

// HasTags reports whether a text has tags of HTML.
func HasTags(text string) bool { return tags.MatchString(text) }
