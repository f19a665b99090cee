package sampling

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets"
	"popri/internal/fault"
	"popri/testkit/testfile"
)

// TestChat: the header becomes a user's turn and the passages the model's, by the folder's template; without one it
// stays.
func TestChat(t *testing.T) {
	const chatML = `{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	tok := newTokenizer(t, "text goes on and on")
	g := configs.Generate{Examples: 1, TemplateHeader: "Write passages of {kind}.", TemplateItem: "### Passage {i}"}
	for _, c := range []struct{ template, header, refused string }{
		{"", "Write passages of {kind}.", ""},
		{chatML, "<|im_start|>user\nWrite passages of {kind}.<|im_end|>\n<|im_start|>assistant", ""},
		{`{{ messages[0]['content'] | upper }}`, "", "generate.chat"},
		{`{{ raise_exception('no users') }}`, "", "no users"},
	} {
		folder := t.TempDir()
		if c.template != "" {
			testfile.Write(t, filepath.Join(folder, "chat_template.jinja"), c.template)
		}
		got, err := Chat(g, folder, tok)
		if c.refused != "" {
			if err == nil || !fault.IsUser(err) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want an error of the user's about %s", c.template, err, c.refused)
			}
			continue
		}
		if err != nil || got.TemplateHeader != c.header {
			t.Errorf("%s: %q (%v), want %q", c.template, got.TemplateHeader, err, c.header)
		}
		p, err := NewPrompter(tok, got, configs.Data{MaxTokens: 200}, []datasets.Text{{Text: "It goes on."}}, 400, 10)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(c.header, "{kind}", "letters", 1) + "\n### Passage 1\n"
		if text := p.Asking("letters").Text; text != want {
			t.Errorf("%s: the prompt is %q, want %q", c.template, text, want)
		}
	}
}
