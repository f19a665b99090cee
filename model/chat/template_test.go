package chat

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

// folder makes a model's folder of files' contents.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	return dir
}

// What templates write is compared with transformers by TestGoldenForms of package dpo.
func TestLoad(t *testing.T) {
	config := `{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [{"name": "tool_use", "template": "no"},
		{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"}]}`
	hello := []Message{Turn("user", "<b>'hi' & \u2028")}
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{configFile: config}, "<s><b>'hi' & \u2028</s>"},
		{map[string]string{configFile: config, templateFile: "{{ messages[0].content | tojson }}"},
			"\"<b>'hi' & \u2028\""},
		{map[string]string{configFile: `{"chat_template": "{% if add_generation_prompt %}go{% endif %}"}`}, "go"},
		{map[string]string{templateFile: "{{ strftime_now('%d %b %Y') }}"}, "26 Jul 2024"},
		// SmolLM3's and Granite's forms
		{map[string]string{templateFile: "{{ strftime_now('%d %B %Y') }}; {{ strftime_now('%B %d, %Y') }}"}, "26 July 2024; July 26, 2024"},
	} {
		template, err := Load(folder(t, c.files))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Render(hello, true, nil); err != nil || got != c.want {
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
		"tokenizer_config.json: chat_template is 7":                     {configFile: `{"chat_template": 7}`},
		"none is named default":                                         {configFile: `{"chat_template": [{"name": "rag", "template": "a"}]}`},
		"tokenizer_config.json: ":                                       {configFile: `{`},
		"chat_template.jinja: the chat template default cannot be read": {templateFile: "{% for m in %}"},
	} {
		if _, err := Load(folder(t, files)); !fault.IsUser(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// TestToolTemplate: a conversation with tools is written by the template tool_use, of a list or of a file, which may be one
// that cannot be read as long as nothing asks for it.
func TestToolTemplate(t *testing.T) {
	list := `{"chat_template": [{"name": "tool_use", "template": "{{ tools | length }}"}, {"name": "default", "template": "no"}]}`
	tools, err := ParseArguments(json.RawMessage(`[{"type": "function"}]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]map[string]string{
		"1":         {configFile: list},
		"from list": {configFile: list, templateFile: "from {{ 'list' }}"},
		"file":      {configFile: list, templateFile: "x", toolsFile: "file"},
		"error":     {templateFile: "no", toolsFile: "{% for m in %}"},
	} {
		template, err := Load(folder(t, files))
		if err != nil {
			t.Fatal(err)
		}
		got, err := template.Render(nil, false, tools)
		if err != nil && want == "error" && fault.IsUser(err) {
			got = "error"
		}
		if got != want {
			t.Errorf("%v: %q (%v)", files, got, err)
		}
		if got, err := template.Render(nil, false, Arguments{"tools": nil}); err != nil || got == "1" || got == "file" {
			t.Errorf("%v without tools: %q (%v)", files, got, err)
		}
	}
}

// A template refuses a conversation in its own words, and reaches no file.
func TestRenderRefuses(t *testing.T) {
	for source, want := range map[string]string{
		"{{ raise_exception('no system role') }}": "chat_template.jinja refuses the conversation: \"no system role\"",
		"{{ messages[0].content() }}":             "chat_template.jinja cannot write the conversation",
		"{% include '/etc/hostname' %}":           "\"include\" is not supported",
	} {
		template, err := Load(folder(t, map[string]string{templateFile: source}))
		if err == nil {
			_, err = template.Render([]Message{Turn("user", "hi")}, false, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// Numbers and the order of fields are as in the file.
func TestFieldsOfMessages(t *testing.T) {
	template, err := Load(folder(t, map[string]string{templateFile: "{{ messages[0].n }} {{ messages[0].tool_calls | tojson }}"}))
	if err != nil {
		t.Fatal(err)
	}
	var m Message
	const calls = `[{"function": {"name": "get", "arguments": {"z": 1, "a": 2.0}}}]`
	if err := json.Unmarshal([]byte(`{"role": "user", "content": "hi", "n": 2, "tool_calls": `+calls+`}`), &m); err != nil {
		t.Fatal(err)
	}
	if text, err := template.Render([]Message{m}, false, nil); err != nil || text != "2 "+calls {
		t.Errorf("%q, %v", text, err)
	}
	if err := json.Unmarshal([]byte(`["user"]`), &m); err == nil {
		t.Error("a list is a message")
	}
}
