package sampling

import (
	"errors"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
)

// TestInstructions: the answer is opened by a mark, and ends at one or at the line's end; texts in marks have none
// inside; a template of turns goes around the instruction.
func TestInstructions(t *testing.T) {
	tok := newTokenizer(t, "text goes on and on")
	p, err := NewAnswering(tok, configs.Generate{TemplateItem: "Text {i}"}, configs.Data{MaxTokens: 100}, 120, 20)
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.Instruct("pos", "Say it anew: "+Marked("it \"goes\"\n on"))
	if err != nil || x.Text != "Say it anew: \"it 'goes' on\"\n\"" || x.Label != "pos" ||
		p.tok.Decode(x.IDs, true) != x.Text {
		t.Errorf("%+v (%v)", x, err)
	}
	for text, want := range map[string]string{"goes on\" and on": "goes on", "goes on": "goes on", "\" text": "",
		"Text 2": "Text 2"} {
		ids := p.tok.Encode(text)
		if got, _ := p.Read(ids, true); got != want {
			t.Errorf("the answer %q is read as %q", text, got)
		}
		ended := false
		for n := range ids {
			ended = ended || p.stop()(nil, ids[:n+1])
		}
		if ended != strings.Contains(text, `"`) {
			t.Errorf("the answer %q ends: %v", text, ended)
		}
	}
	if len(p.stopTokens()) == 0 {
		t.Error("a line's end does not end an answer")
	}
	p.Turns = func(s string) (string, error) { return "<user>" + s + "<model>", nil }
	if x, err = p.Instruct("", "Write."); err != nil || x.Text != `<user>Write.<model>"` {
		t.Errorf("%+v (%v)", x, err)
	}
	if _, err := p.Instruct("", strings.Repeat("long ", 100)); !errors.Is(err, ErrTooLong) {
		t.Errorf("an instruction that is too long: %v", err)
	}
	// A prompter of public texts is as it was.
	of, err := NewPrompter(tok, configs.Generate{TemplateItem: "Text {i}"}, configs.Data{MaxTokens: 100},
		[]datasets.Text{{Text: "text"}}, 120, 20)
	if err != nil {
		t.Fatal(err)
	}
	of.Answering()
	if got, _ := of.Read(tok.Encode("goes on\" and on"), true); got != "goes on\" and on" {
		t.Errorf("after Answering, a sample is read as %q", got)
	}
}
