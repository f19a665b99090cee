package textgen_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/shipped"
	"popri/run/textgen"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// TestConversations: messages are written by the chat template of the model's folder, whichever of both forms they
// have, up to where the model's turn begins.
func TestConversations(t *testing.T) {
	source, err := shipped.Dir(shipped.Generator)
	if err != nil {
		t.Fatal(err)
	}
	tok := testmodel.Tokenizer(t, source)
	dir := t.TempDir()
	template := "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt " +
		"%}[model]\n{% endif %}"
	testfile.Write(t, filepath.Join(dir, "chat_template.jinja"), template)
	const list = `[{"role": "system", "content": "be brief"}, {"role": "user", "content": "the linker"}]`
	const want = "[system] be brief\n[user] the linker\n[model]\n"
	lines := `{"messages": ` + list + "}\n" + `{"prompt": ` + list + "}\n" + `{"prompt": "the linker"}`
	prompts, err := textgen.ReadPrompts(strings.NewReader(lines), "prompts.jsonl", tok, dir)
	if err != nil {
		t.Fatal(err)
	}
	prefix, _ := tok.Template()
	for i, text := range []string{want, want, "the linker"} {
		if p := prompts[i]; p.Text != text || !slices.Equal(p.IDs, append(slices.Clone(prefix), tok.Encode(text)...)) {
			t.Errorf("%s: %q, %v", p.Where, p.Text, p.IDs)
		}
	}
}
