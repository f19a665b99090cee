package sentence_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"popri/embedding/embeddingtest"
	"popri/embedding/sentence"
	"popri/safetensors"
)

// What a folder asks for and the encoder does not do, and what is damaged, is named.
func TestOpenRefuses(t *testing.T) {
	edit := func(name, from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(b), from) {
				t.Fatalf("%s holds no %s: %v", path, from, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(b), from, to, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(name, content string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if err == nil {
				err = os.WriteFile(path, []byte(content), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, k := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"another model", edit("config.json", `"bert"`, `"roberta"`), "roberta"},
		{"another activation", edit("config.json", `"gelu"`, `"relu"`), "relu"},
		{"an unknown field", edit("config.json", `{`, `{"embedding_size": 8, `), "embedding_size"},
		{"heads that do not divide", edit("config.json", `"num_attention_heads":4`, `"num_attention_heads":5`), "no multiple"},
		{"another width", edit("config.json", `"intermediate_size":64`, `"intermediate_size":63`), "intermediate.dense"},
		{"a layer more", edit("config.json", `"num_hidden_layers":2`, `"num_hidden_layers":3`), "encoder.layer.2."},
		{"a layer less", edit("config.json", `"num_hidden_layers":2`, `"num_hidden_layers":1`), "encoder.layer.1."},
		{"a vocabulary smaller than the tokenizer's", edit("config.json", `"vocab_size":`, `"vocab_size":9, "summary_x":`), "ids up to"},
		{"a dense module", file("modules.json", `[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]`), "Dense"},
		{"pooling by the first token", file("1_Pooling/config.json", `{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}`), "pooling"},
		{"a folder outside", file("modules.json", `[{"type": "a.Pooling", "path": "../x"}]`), "outside"},
		{"too long texts", file("sentence_bert_config.json", `{"max_seq_length": 65}`), "max_seq_length"},
		{"no room", file("sentence_bert_config.json", `{"max_seq_length": 2}`), "max_seq_length"},
		{"lower case here", file("sentence_bert_config.json", `{"max_seq_length": 32, "do_lower_case": true}`), "do_lower_case"},
		{"weights cut short", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, safetensors.ModelFile), 5000); err != nil {
				t.Fatal(err)
			}
		}, safetensors.ModelFile},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := embeddingtest.BERT(t)
			k.spoil(t, dir)
			f, err := sentence.Open(dir)
			if err == nil {
				defer f.Close()
				_, err = f.Weights()
			}
			if err == nil {
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), k.want) {
				t.Errorf("%q lacks %q", err, k.want)
			}
		})
	}
}
