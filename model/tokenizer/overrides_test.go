package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOverrides: what tokenizer_config.json sets replaces what tokenizer.json has, as in transformers, and two ids of one token
// are refused.
func TestOverrides(t *testing.T) {
	const byteLevel = `{"version": "1.0", "added_tokens": [], "normalizer": null,
		"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
		"model": {"type": "BPE", "dropout": null, "unk_token": "u", "continuing_subword_prefix": null,
			"end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "u": 4}, "merges": ["a b"]}}`
	const bert = `{"version": "1.0", "added_tokens": [], "normalizer": {"type": "BertNormalizer", "clean_text": true,
		"handle_chinese_chars": true, "strip_accents": null, "lowercase": false},
		"pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null,
		"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "A": 2, "b": 3}}}`
	for _, k := range []struct {
		file, config, text string
		want               []int32
		refused            string
	}{
		{byteLevel, `{}`, "ab", []int32{3}, ""},
		{byteLevel, `{"add_prefix_space": true}`, "ab", []int32{2, 3}, ""},
		{byteLevel, `{"added_tokens_decoder": {"5": {"content": "ba"}}}`, "bab", []int32{5, 1}, ""},
		{byteLevel, `{"added_tokens_decoder": {"1": {"content": "b"}, "3": {"content": "ab"}}}`, "aba", []int32{3, 0}, ""},
		{byteLevel, `{"added_tokens_decoder": {"7": {"content": "b"}}}`, "", nil, `"b"`},
		{byteLevel, `{"added_tokens_decoder": {"x": {"content": "b"}}}`, "", nil, `"x" is no id`},
		{bert, `{}`, "A b", []int32{2, 3}, ""},
		{bert, `{"do_lower_case": true}`, "A b", []int32{1, 3}, ""},
		{bert, `{"strip_accents": true}`, "", nil, "strip_accents"},
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{FileName: k.file, configName: k.config} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tok, err := Load(dir)
		if k.refused != "" {
			if err == nil || !strings.Contains(err.Error(), k.refused) {
				t.Errorf("%s: %v, want an error with %s", k.config, err, k.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", k.config, err)
			continue
		}
		if got := tok.Encode(k.text); !slices.Equal(got, k.want) {
			t.Errorf("%s: %q becomes %v, want %v", k.config, k.text, got, k.want)
		}
	}
}

// A tokenizer.json that is null is damaged, and no reason to stop.
func TestOverridesOfNull(t *testing.T) {
	content, err := obey([]byte("null"), []byte(`{"added_tokens_decoder": {"3": {"content": "x"}}}`))
	if err != nil || string(content) != "null" {
		t.Errorf("%q, %v", content, err)
	}
}
