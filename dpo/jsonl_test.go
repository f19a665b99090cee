package dpo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/tokenizer"
	"popri/testkit/golden"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

func lineTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values([]string{"the cat and the hat"}),
		tokenizer.TrainOptions{VocabSize: 262, SpecialTokens: []string{"<|endoftext|>"}})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestReadJSONL(t *testing.T) {
	tok := lineTokenizer(t)
	eos, _ := tok.EOS()
	path := filepath.Join(t.TempDir(), "pairs.jsonl")
	long := strings.TrimSpace(strings.Repeat("the cat ", 40))
	content := fmt.Sprintf("\ufeff{\"prompt\": \"the\", \"chosen\": \" cat\", \"rejected\": \" hat\", \"score\": "+
		"1}\r\n\n{\"prompt\": \"\", \"chosen\": \"\", \"rejected\": \"é\"}\n\ufeff{\"prompt\": %q, \"chosen\": \" a\", "+
		"\"rejected\": \" b\"}", long)
	testfile.Write(t, path, content)
	options := ReadOptions{Tokenizer: tok, MaxLength: 30}
	pairs, lost, err := Read(path, options)
	if err != nil || len(pairs) != 2 || lost != (Cut{Dropped: 1}) {
		t.Fatalf("%v: %d pairs", err, len(pairs))
	}
	end := func(text string) []int32 { return append(tok.Encode(text), eos) }
	if p := pairs[0]; !slices.Equal(p.Prompt, tok.Encode("the")) || !slices.Equal(p.Chosen, end(" cat")) ||
		!slices.Equal(p.Rejected, end(" hat")) || p.PromptText != "the" {
		t.Errorf("%+v", p)
	}
	if p := pairs[1]; !slices.Equal(p.Prompt, []int32{eos}) || !slices.Equal(p.Chosen, []int32{eos}) ||
		!slices.Equal(p.Rejected, end("é")) {
		t.Errorf("%+v", p)
	}

	// Completions lose their end; the pair whose prompt fills the length is left out.
	options.MaxLength = 3
	if short, lost, err := Read(path, options); err != nil || len(short) != 2 ||
		lost != (Cut{Truncated: 2, Dropped: 1}) || len(short[0].Rejected) != 2 {
		t.Errorf("%v: %+v, %+v", err, short, lost)
	}
	options.MaxLength = 30
	for _, c := range []struct{ content, want string }{
		{"", "no pairs"},
		{"\n \n", "no pairs"},
		{`{"prompt": "a", "chosen": "b", "rejected": "c"}` + "\n[1]", "line 2"},
		{`{"prompt": "a", "chosen": "b"}`, `line 1: "rejected" is missing`},
		{`{"prompt": "a", "chosen": [{"role": "user"}], "rejected": "c"}`,
			`"chosen" is a list whose message 1 is {"role": "user"}: "content" is missing`},
		{`{"prompt": null, "chosen": "b", "rejected": "c"}`, `"prompt" is null`},
		{fmt.Sprintf(`{"prompt": %q, "chosen": "b", "rejected": "c"}`, long), "dpo.max_length, 30 tokens"},
		{`{"prompt": "a"`, "line 1"},
		{`{"prompt": "the", "chosen": "the cat", "rejected": "the hat"}`,
			"line 1: chosen and rejected begin with the prompt"},
		{`{"prompt": [{"role": "u", "content": "a"}], "chosen": "b", "rejected": "c"}`,
			"\"prompt\" is a list of messages and the completions are texts"},
		{`{"chosen": [{"role": "u", "content": "a"}], "rejected": "c"}`,
			`"chosen" is a list of messages and "rejected" is a text`},
		{`{"prompt": "a", "chosen": [], "rejected": []}`, `"chosen" is a list without messages`},
		{`{"chosen": [{"role": "u", "content": 7}], "rejected": "c"}`, `"content" is 7, want a text`},
		{`{"chosen": [{"role": "u", "content": "a"}], "rejected": [{"role": "u", "content": "b"}], "tools": {"name": "t"}}`,
			`tools is {"name": "t"}, want a list`},
		{`{"chosen": [{"role": "u", "content": "a"}], "rejected": [{"role": "u", "content": "b"}]}`,
			"the model's folder has no chat template"},
		{`{"prompt": "", "chosen": "b", "rejected": "b"}`, "line 1: chosen and rejected are the same"},
		{`{"prompt": "a", "chosen": "", "rejected": ""}`, "line 1: chosen and rejected are the same"},
		{"\n" + `{"prompt": "a", "prompt": "b", "chosen": "b", "rejected": "c"}`,
			`line 2: want an object with prompt, chosen and rejected: "prompt" stands twice`},
		{"{\"prompt\": \"a\", \"chosen\": \"b\xff\", \"rejected\": \"c\"}",
			"line 1: want an object with prompt, chosen and rejected: not UTF-8"},
		{fmt.Sprintf(`{"prompt": "a", "chosen": [%q], "rejected": "c"}`, long),
			"… (321 bytes): want an object with role and content"},
	} {
		testfile.Write(t, path, c.content)
		if _, _, err := Read(path, options); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q gives %v", c.content, err)
		}
	}
	if _, _, err := Read(filepath.Join(t.TempDir(), "none"), options); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzPairs(f *testing.F) {
	tok := lineTokenizer(f)
	f.Add([]byte(`{"prompt": "the", "chosen": " cat", "rejected": " hat"}`))
	f.Add([]byte("{\"prompt\": \"\\ud800\", \"chosen\": \"\", \"rejected\": \"\xff\"}\n\n[]"))
	f.Add([]byte(`{"prompt": {}, "chosen": 1}`))
	f.Add([]byte(`{"chosen": "the cat", "rejected": "the hat"}`))
	f.Add([]byte(`{"prompt": "the", "chosen": [{"role": "user", "content": "the"}], "rejected": [{"role": "a", "content": "cat"}]}`))
	folder := chatFolder(f, "chatml", "tokenizers/gpt2-512")
	f.Fuzz(func(t *testing.T, content []byte) {
		x, err := newTexts(ReadOptions{Tokenizer: tok, Folder: folder, MaxLength: 50})
		if err != nil {
			t.Fatal(err)
		}
		pairs, err := x.parseJSONL(strings.NewReader(string(content)))
		if err != nil {
			return
		}
		for _, p := range pairs {
			if len(p.Prompt) == 0 || len(p.Chosen) == 0 || len(p.Rejected) == 0 ||
				len(p.Prompt)+max(len(p.Chosen), len(p.Rejected)) > 50 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// TestGoldenTexts: prompts and completions are divided into tokens as by TRL 1.16.
func TestGoldenTexts(t *testing.T) {
	folder := golden.Folder(t, "dpo-texts")
	n := 0
	for _, c := range testfile.ReadLines[struct {
		Tokenizer, Prompt, Chosen, Rejected string
		PromptIDs                           []int32 `json:"prompt_ids"`
		ChosenIDs                           []int32 `json:"chosen_ids"`
		RejectedIDs                         []int32 `json:"rejected_ids"`
	}](t, filepath.Join(folder, "cases.jsonl")) {
		tok := testmodel.Tokenizer(t, filepath.Join(folder, "..", c.Tokenizer, "tokenizer.json"))
		x, err := newTexts(ReadOptions{Tokenizer: tok, MaxLength: 1000})
		if err != nil {
			t.Fatal(err)
		}
		p, err := x.text(row{prompt: &content{text: c.Prompt}, chosen: content{text: c.Chosen},
			rejected: content{text: c.Rejected}})
		if err != nil || !slices.Equal(p.Prompt, c.PromptIDs) || !slices.Equal(p.Chosen, c.ChosenIDs) ||
			!slices.Equal(p.Rejected, c.RejectedIDs) {
			t.Errorf("%s: %q, %q, %q: %v %v %v, want %v %v %v (%v)", c.Tokenizer, c.Prompt, c.Chosen, c.Rejected,
				p.Prompt, p.Chosen, p.Rejected, c.PromptIDs, c.ChosenIDs, c.RejectedIDs, err)
		}
		n++
	}
	golden.Checked(t, "dpo-texts", n)
}

// chatFolder makes a model's folder of a chat template of the golden cases and the special tokens of a tokenizer.
func chatFolder(t testing.TB, name, tokenizer string) string {
	t.Helper()
	dir, folder := t.TempDir(), golden.Folder(t, "dpo-texts")
	b, err := os.ReadFile(filepath.Join(folder, name+".jinja"))
	names, errNames := os.ReadFile(filepath.Join(folder, "..", tokenizer, "tokenizer_config.json"))
	if err := errors.Join(err, errNames, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), b, 0o644),
		os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), names, 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGoldenForms: texts and conversations of every form are read as by TRL 1.16, whole and cut by keep_start.
func TestGoldenForms(t *testing.T) {
	folder := golden.Folder(t, "dpo-texts")
	checked := map[string]int{}
	for _, c := range testfile.ReadLines[struct {
		Tokenizer, Template string
		MaxLength           int `json:"max_length"`
		Row                 json.RawMessage
		PromptIDs           []int32 `json:"prompt_ids"`
		ChosenIDs           []int32 `json:"chosen_ids"`
		RejectedIDs         []int32 `json:"rejected_ids"`
	}](t, filepath.Join(folder, "forms.jsonl")) {
		tok := testmodel.Tokenizer(t, filepath.Join(folder, "..", c.Tokenizer, "tokenizer.json"))
		o := ReadOptions{Tokenizer: tok, MaxLength: cmp.Or(c.MaxLength, 1000)}
		if c.Template != "" {
			o.Folder = chatFolder(t, c.Template, c.Tokenizer)
		}
		x, err := newTexts(o)
		if err != nil {
			t.Fatal(err)
		}
		pairs, err := x.parseJSONL(bytes.NewReader(c.Row))
		if err != nil || len(pairs) != 1 || !slices.Equal(pairs[0].Prompt, c.PromptIDs) ||
			!slices.Equal(pairs[0].Chosen, c.ChosenIDs) || !slices.Equal(pairs[0].Rejected, c.RejectedIDs) {
			t.Errorf("%s, template %q: %s: %v, %+v, want %v %v %v", c.Tokenizer, c.Template, c.Row, err, pairs,
				c.PromptIDs, c.ChosenIDs, c.RejectedIDs)
		}
		checked[cmp.Or(c.Template, "implicit")]++
	}
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		golden.Checked(t, "dpo-texts/"+name, checked[name])
	}
}

// TestToolCalls: calls of tools keep their numbers and their order, a list of tools and arguments reach the chat template.
func TestToolCalls(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pairs.jsonl")
	for name, content := range map[string]string{
		"chat_template.jinja": "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}" +
			"{% for k, v in c.arguments|items %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}" +
			"{% if not add_generation_prompt %}{{ tools|tojson }}{{ mood }}{% endif %}",
		"pairs.jsonl": `{"prompt": [{"role": "u", "content": "a"}], "chosen": [{"role": "b", "content": null, "tool_calls": ` +
			`[{"arguments": {"z": 2, "a": [1.0, "x"]}}]}], "rejected": [{"role": "b", "content": "no"}], ` +
			`"tools": "[{\"y\": 1, \"b\": 2.5}]", "chat_template_kwargs": {"mood": "!"}}`,
	} {
		testfile.Write(t, filepath.Join(dir, name), content)
	}
	tok := testmodel.Tokenizer(t, filepath.Join("..", "testdata", "golden", "tokenizers", "gpt2-512", "tokenizer.json"))
	pairs, _, err := Read(path, ReadOptions{Tokenizer: tok, Folder: dir, MaxLength: 1000})
	if err != nil {
		t.Fatal(err)
	}
	const chosen = `b:Nonez=2;a=[1.0, 'x'];[{"y": 1, "b": 2.5}]!`
	if p := pairs[0]; p.PromptText != "u:a" || p.ChosenText != chosen {
		t.Errorf("%q, %q", p.PromptText, p.ChosenText)
	}
}
