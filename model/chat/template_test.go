package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/fault"
)

// folder makes a model's folder of files' contents.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What templates write is compared with transformers by TestGoldenForms of package dpo.
func TestLoad(t *testing.T) {
	config := `{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [{"name": "tool_use", "template": "no"},
		{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"}]}`
	hello := []Message{{"role": "user", "content": "<b>'hi' & \u2028"}}
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{configFile: config}, "<s><b>'hi' & \u2028</s>"},
		{map[string]string{configFile: config, templateFile: "{{ messages[0].content | tojson }}"},
			"\"<b>'hi' & \u2028\""},
		{map[string]string{configFile: `{"chat_template": "{% if add_generation_prompt %}go{% endif %}"}`}, "go"},
		{map[string]string{templateFile: "{%- if strftime_now is defined %}today{% else %}then{% endif %}"}, "then"},
	} {
		template, err := Load(folder(t, c.files))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Render(hello, true); err != nil || got != c.want {
			t.Errorf("%v: %q, %v, want %q", c.files, got, err, c.want)
		}
	}
	if _, err := Load(folder(t, map[string]string{configFile: `{"eos_token": "</s>"}`})); !errors.Is(err, ErrNone) {
		t.Errorf("a folder without a template: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNone) {
		t.Errorf("no folder: %v", err)
	}
	for want, files := range map[string]map[string]string{
		"tokenizer_config.json: chat_template is 7":             {configFile: `{"chat_template": 7}`},
		"none is named default":                                 {configFile: `{"chat_template": [{"name": "rag", "template": "a"}]}`},
		"tokenizer_config.json: ":                               {configFile: `{`},
		"chat_template.jinja: the chat template cannot be read": {templateFile: "{% for m in %}"},
	} {
		if _, err := Load(folder(t, files)); !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// A template refuses a conversation in its own words, and reaches no file.
func TestRenderRefuses(t *testing.T) {
	for source, want := range map[string]string{
		"{{ raise_exception('no system role') }}": "chat_template.jinja refuses the conversation: \"no system role\"",
		"{{ messages | tojson }}":                 "tojson of anything but texts",
		"{{ messages[0].content() }}":             "chat_template.jinja cannot write the conversation",
		"{% include '/etc/hostname' %}":           "cannot",
	} {
		template, err := Load(folder(t, map[string]string{templateFile: source}))
		if err == nil {
			_, err = template.Render([]Message{{"role": "user", "content": "hi"}}, false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// Whole numbers stay whole, and what would lose its order is refused.
func TestFieldsOfMessages(t *testing.T) {
	template, err := Load(folder(t, map[string]string{templateFile: "{{ messages[0].n }} {{ messages[0].list[1] }}"}))
	if err != nil {
		t.Fatal(err)
	}
	m := Message{"role": "user", "content": "hi", "n": 2.0, "list": []any{"a", 0.5}}
	if text, err := template.Render([]Message{m}, false); err != nil || text != "2 0.5" {
		t.Errorf("%q, %v", text, err)
	}
	m["tool_calls"] = []any{map[string]any{"function": map[string]any{"name": "get"}}}
	if _, err := template.Render([]Message{m}, false); err == nil ||
		!strings.Contains(err.Error(), `message 1: "tool_calls" holds an object`) {
		t.Error(err)
	}
}

// FuzzTemplate: whatever a template says, it is carried out or refused. Calls of macros, numbers from range and
// products are left out, for a template may run for as long as it likes.
func FuzzTemplate(f *testing.F) {
	for _, source := range []string{
		"{% for m in messages %}{{ '<|' + m['role'] + '|>' + m.content | trim + eos_token }}{% endfor %}",
		"{%- set x = namespace(n=0) -%}{% if messages[-1].role == 'user' and not tools %}{{ raise_exception('no') " +
			"}}{% endif %}",
		"{% generation %}{{ messages | length }}{{ messages[0].content | tojson }}{% endgeneration %}{# a #}",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1000 || strings.ContainsAny(source, "*") || strings.Contains(source, "macro") ||
			strings.Contains(source, "range") {
			return
		}
		parsed, err := parse(source)
		if err != nil {
			return
		}
		template := &Template{path: "a.jinja", parsed: parsed, tokens: map[string]any{"eos_token": "</s>"}}
		_, _ = template.Render([]Message{{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}},
			true)
	})
}
