package tokenizer

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
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
	llama := `{"version": "1.0", "added_tokens": [], "normalizer": {"type": "Sequence", "normalizers": [
		{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
		"pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Sequence", "decoders": [
		{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
		{"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
		"model": {"type": "BPE", "dropout": null, "unk_token": "u", "continuing_subword_prefix": null,
			"end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
			"vocab": {"a": 0, "b": 1, "▁": 2, "u": 3BYTES}, "merges": []}}`
	bytes := ""
	for i := range 256 {
		bytes += fmt.Sprintf(`, "<0x%02X>": %d`, i, 4+i)
	}
	llama = strings.Replace(llama, "BYTES", bytes, 1)
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
		{llama, `{"tokenizer_class": "LlamaTokenizer"}`, "a b", []int32{2, 0, 2, 1}, ""},
		{llama, `{"tokenizer_class": "LlamaTokenizerFast", "add_prefix_space": false}`, "a b", []int32{0, 2, 1}, ""},
		{llama, `{"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false}`, " a", []int32{2, 0}, ""},
		{llama, `{"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": false}`, "a", []int32{2, 0}, ""},
		{bert, `{}`, "A b", []int32{2, 3}, ""},
		{bert, `{"do_lower_case": true}`, "A b", []int32{1, 3}, ""},
		{bert, `{"strip_accents": true}`, "", nil, "strip_accents"},
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{FileName: k.file, configName: k.config} {
			testfile.Write(t, filepath.Join(dir, name), content)
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
		} else if back := tok.Decode(got, true); k.file == llama && back != k.text {
			t.Errorf("%s: %v becomes %q, want %q", k.config, got, back, k.text)
		}
	}
}

// A tokenizer.json that is null is damaged, and no reason to stop.
func TestOverridesOfNull(t *testing.T) {
	content, err := obey([]byte("null"), []byte(`{"added_tokens_decoder": {"3": {"content": "x"}}}`), "")
	if err != nil || string(content) != "null" {
		t.Errorf("%q, %v", content, err)
	}
}
