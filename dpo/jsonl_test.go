package dpo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/internal/golden"
	"popri/model/tokenizer"
)

func lineTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.TrainBPE(slices.Values([]string{"the cat and the hat"}), tokenizer.TrainOptions{VocabSize: 262, SpecialTokens: []string{"<|endoftext|>"}})
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
	content := fmt.Sprintf("\ufeff{\"prompt\": \"the\", \"chosen\": \" cat\", \"rejected\": \" hat\", \"score\": 1}\r\n\n{\"prompt\": \"\", \"chosen\": \"\", \"rejected\": \"é\"}\n{\"prompt\": %q, \"chosen\": \" a\", \"rejected\": \" b\"}", long)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	pairs, err := ReadJSONL(path, tok, 30)
	if err != nil || len(pairs) != 3 {
		t.Fatalf("%v: %d pairs", err, len(pairs))
	}
	end := func(text string) []int32 { return append(tok.Encode(text), eos) }
	if p := pairs[0]; !slices.Equal(p.Prompt, tok.Encode("the")) || !slices.Equal(p.Chosen, end(" cat")) || !slices.Equal(p.Rejected, end(" hat")) || p.PromptText != "the" {
		t.Errorf("%+v", p)
	}
	if p := pairs[1]; !slices.Equal(p.Prompt, []int32{eos}) || !slices.Equal(p.Chosen, []int32{eos}) || !slices.Equal(p.Rejected, end("é")) {
		t.Errorf("%+v", p)
	}
	if p, ids := pairs[2], tok.Encode(long); !slices.Equal(p.Prompt, ids[len(ids)-30+max(len(p.Chosen), len(p.Rejected)):]) {
		t.Errorf("a long prompt keeps %q", tok.Decode(p.Prompt, false))
	}

	for _, c := range []struct{ content, want string }{
		{"", "no pairs"},
		{"\n \n", "no pairs"},
		{`{"prompt": "a", "chosen": "b", "rejected": "c"}` + "\n[1]", "line 2"},
		{`{"prompt": "a", "chosen": "b"}`, `line 1: "rejected" is missing`},
		{`{"prompt": "a", "chosen": [{"role": "user"}], "rejected": "c"}`, `"chosen" is [{`},
		{`{"prompt": null, "chosen": "b", "rejected": "c"}`, `"prompt" is null`},
		{fmt.Sprintf(`{"prompt": "a", "chosen": %q, "rejected": "c"}`, long), "context of 30"},
		{`{"prompt": "a"`, "line 1"},
		{`{"prompt": "", "chosen": "b", "rejected": "b"}`, "line 1: chosen and rejected are the same"},
		{`{"prompt": "a", "chosen": "", "rejected": ""}`, "line 1: chosen and rejected are the same"},
		{"\n" + `{"prompt": "a", "prompt": "b", "chosen": "b", "rejected": "c"}`, `line 2: want an object with prompt, chosen and rejected: "prompt" stands twice`},
		{"{\"prompt\": \"a\", \"chosen\": \"b\xff\", \"rejected\": \"c\"}", "line 1: want an object with prompt, chosen and rejected: not UTF-8"},
		{fmt.Sprintf(`{"prompt": "a", "chosen": [%q], "rejected": "c"}`, long), "… (323 bytes), want a text"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadJSONL(path, tok, 30); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q gives %v", c.content, err)
		}
	}
	if _, err := ReadJSONL(filepath.Join(t.TempDir(), "none"), tok, 30); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzPairs(f *testing.F) {
	tok := lineTokenizer(f)
	f.Add([]byte(`{"prompt": "the", "chosen": " cat", "rejected": " hat"}`))
	f.Add([]byte("{\"prompt\": \"\\ud800\", \"chosen\": \"\", \"rejected\": \"\xff\"}\n\n[]"))
	f.Add([]byte(`{"prompt": {}, "chosen": 1}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		pairs, err := parseJSONL(strings.NewReader(string(content)), tok, 50)
		if err != nil {
			return
		}
		for _, p := range pairs {
			if len(p.Prompt) == 0 || len(p.Chosen) == 0 || len(p.Rejected) == 0 || len(p.Prompt)+max(len(p.Chosen), len(p.Rejected)) > 50 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// TestGoldenTexts: prompts and completions are divided into tokens as by TRL 1.16.
func TestGoldenTexts(t *testing.T) {
	folder := golden.Folder(t, "dpo-texts")
	content, err := os.ReadFile(filepath.Join(folder, "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(content)) {
		var c struct {
			Tokenizer, Prompt, Chosen, Rejected string
			PromptIDs                           []int32 `json:"prompt_ids"`
			ChosenIDs                           []int32 `json:"chosen_ids"`
			RejectedIDs                         []int32 `json:"rejected_ids"`
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.Load(filepath.Join(folder, "..", c.Tokenizer, "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		x, err := newTexts(tok, 1000)
		if err != nil {
			t.Fatal(err)
		}
		p, err := x.pair([3]string{c.Prompt, c.Chosen, c.Rejected})
		if err != nil || !slices.Equal(p.Prompt, c.PromptIDs) || !slices.Equal(p.Chosen, c.ChosenIDs) || !slices.Equal(p.Rejected, c.RejectedIDs) {
			t.Errorf("%s: %q, %q, %q: %v %v %v, want %v %v %v (%v)", c.Tokenizer, c.Prompt, c.Chosen, c.Rejected, p.Prompt, p.Chosen,
				p.Rejected, c.PromptIDs, c.ChosenIDs, c.RejectedIDs, err)
		}
		n++
	}
	golden.Checked(t, "dpo-texts", n)
}
