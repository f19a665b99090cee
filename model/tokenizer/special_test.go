package tokenizer

import (
	"maps"
	"path/filepath"
	"testing"

	"popri/testkit/testfile"
)

// TestSpecialTokens: what a chat template sees is what transformers 5.23's AutoTokenizer has in special_tokens_map for the
// same folder (of the names of its files).
func TestSpecialTokens(t *testing.T) {
	gpt2 := map[string]string{"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
	qwen2 := map[string]string{"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
	llama := map[string]string{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
	const pieces, bytes = `{"model": {"byte_fallback": true}}`, `{"pre_tokenizer": {"type": "ByteLevel"}}`
	for _, c := range []struct {
		config, special, model, tokenizer string // contents of files, "" for none
		want                              map[string]string
	}{
		{config: `{"tokenizer_class": "PreTrainedTokenizerFast"}`},
		{config: `{"tokenizer_class": "GPT2Tokenizer"}`, want: gpt2},
		{config: `{"tokenizer_class": "GPT2TokenizerFast"}`, want: gpt2},
		{config: `{"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": false}`, want: qwen2},
		{config: `{}`, model: `{"model_type": "qwen2"}`, want: qwen2},
		{model: `{"model_type": "gpt2"}`, want: gpt2},
		{model: `{"model_type": "llama"}`},
		{config: `{"tokenizer_class": "LlamaTokenizer"}`, want: llama},
		{config: `{"tokenizer_class": "LlamaTokenizer"}`, model: `{"model_type": "smollm3"}`, tokenizer: bytes},
		{model: `{"model_type": "smollm3", "tokenizer_class": "LlamaTokenizer"}`, tokenizer: pieces, want: llama},
		{config: `{"tokenizer_class": "GPT2Tokenizer"}`, model: `{"model_type": "granite"}`, tokenizer: bytes},
		{config: `{"tokenizer_class": "GPT2Tokenizer"}`, model: `{"model_type": "olmo2"}`, tokenizer: bytes},
		{config: `{"tokenizer_class": "PreTrainedTokenizerFast"}`, model: `{"model_type": "qwen2"}`, tokenizer: bytes, want: qwen2},
		{model: `{"model_type": "opt"}`, tokenizer: bytes, want: gpt2},
		{config: `{"tokenizer_class": "LlamaTokenizer"}`, tokenizer: pieces, want: llama},
		{config: `{"tokenizer_class": "LlamaTokenizerFast"}`, model: `{"model_type": "llama"}`, tokenizer: pieces, want: llama},
		{config: `{"tokenizer_class": "LlamaTokenizer"}`, model: `{"model_type": "mistral"}`, tokenizer: pieces},
		{config: `{"tokenizer_class": "PreTrainedTokenizerFast"}`,
			special: `{"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>", "lstrip": false}, "pad_token": "<pad>"}`,
			want:    map[string]string{"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<pad>"}},
		{config: `{"eos_token": "A"}`, special: `{"eos_token": "B", "bos_token": "C"}`,
			want: map[string]string{"eos_token": "B", "bos_token": "C"}},
		{config: `{"eos_token": "A", "added_tokens_decoder": {}}`, special: `{"eos_token": "B", "bos_token": "C"}`,
			want: map[string]string{"eos_token": "A"}},
		{config: `{"eos_token": null, "bos_token": "X"}`, special: `{"eos_token": "B"}`,
			want: map[string]string{"eos_token": "B", "bos_token": "X"}},
		{config: `{"additional_special_tokens": ["<a>"], "extra_special_tokens": {"image_token": "<img>"}}`,
			want: map[string]string{"image_token": "<img>"}},
		{config: `{"extra_special_tokens": ["<a>"], "eos_token": {"__type": "AddedToken", "content": "</s>"}}`,
			want: map[string]string{"eos_token": "</s>"}},
		{},
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{configName: c.config, SpecialFile: c.special, "config.json": c.model,
			FileName: c.tokenizer} {
			if content == "" {
				continue
			}
			testfile.Write(t, filepath.Join(dir, name), content)
		}
		got, _, err := SpecialTokens(dir)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
