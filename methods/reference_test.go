package methods

import (
	"strings"
	"testing"

	"popri/testkit/golden"
)

func TestReferencePageOfSettings(t *testing.T) {
	page, err := settingsPage()
	if err != nil {
		t.Fatal(err)
	}
	golden.Page(t, "settings.md", page)
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		`needs scoring.release "once": the texts`:  "needs `scoring.release` `once`: the texts",
		`"", the default; an end, see steps.jsonl`: "`\"\"`, the default; an end, see steps.jsonl",
		`with learning_rate alone, <|x|>`:          "with `learning_rate` alone, \\<|x|\\>",
	} {
		if got := markdown(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for comment, want := range map[string]string{"is the number": "The number", "says which": "Says which",
		"σ is": "Σ is"} {
		if got := meaning(comment); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
}

func TestComments(t *testing.T) {
	comments, err := readComments()
	if err != nil {
		t.Fatal(err)
	}
	for key, comment := range comments.Keys {
		if len(comment) < 10 || !strings.Contains(".)", comment[len(comment)-1:]) {
			t.Errorf("%s: %q is no sentence", key, comment)
		}
	}
}
