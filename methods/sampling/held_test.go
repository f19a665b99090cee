package sampling

import (
	"slices"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
)

// Before generate.min_new_tokens, neither a line break nor a sign of the marker is drawn; letters of the marker may be.
// Where samples have line breaks, these are drawn, unless nothing else shows the marker.
func TestHeldTokens(t *testing.T) {
	tok := newTokenizer(t, "### Passage 1\ntext goes on\n### Passage 2\ntext goes on\n")
	public := []datasets.Text{{Text: "text goes on"}}
	for _, c := range []struct {
		item       string
		held, free []string
	}{{"", nil, []string{"\n", "#"}}, {"### Passage {i}", []string{"\n", "#"}, []string{"P", "t", " "}}, {"Passage {i}",
		[]string{"\n"}, []string{"#", "P"}}} {
		g := configs.Generate{Examples: 1, TemplateItem: c.item}
		p, err := NewPrompter(tok, g, configs.Data{MaxTokens: 20}, public, 200, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(c.held, c.free...) {
			ids := tok.Encode(text)
			if len(ids) != 1 {
				t.Fatalf("%q has tokens %v", text, ids)
			}
			p.Lines = true
			if got, want := slices.Contains(p.Held(), ids[0]), slices.Contains(c.held, text) &&
				(text != "\n" || len(c.held) == 1); got != want {
				t.Errorf("with line breaks, template item %q: %q is held: %v, want %v", c.item, text, got, want)
			}
			p.Lines = false
			if got, want := slices.Contains(p.Held(), ids[0]), slices.Contains(c.held, text); got != want {
				t.Errorf("template item %q: %q is held: %v, want %v", c.item, text, got, want)
			}
		}
		for _, id := range p.held {
			if text := tok.Decode([]int32{id}, false); !strings.Contains(text, "\n") && strings.Trim(text, " #") != "" {
				t.Errorf("template item %q holds %q", c.item, text)
			}
		}
	}
}
