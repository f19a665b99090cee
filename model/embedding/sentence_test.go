package embedding_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/embedding/sentence"
	"popri/model/safetensors"
	"popri/model/tokenizer"
	"popri/testkit/testfile"
)

// What a folder asks for and the encoder does not do, and what is damaged, is named.
func TestOpenRefuses(t *testing.T) {
	edit := func(name, from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			testfile.Replace(t, filepath.Join(dir, name), from, to)
		}
	}
	file := func(name, content string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			testfile.Write(t, filepath.Join(dir, name), content)
		}
	}
	for _, k := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"another model", edit("config.json", `"bert"`, `"albert"`), "albert"},
		{"another activation", edit("config.json", `"gelu"`, `"relu"`), "relu"},
		{"an unknown field", edit("config.json", `{`, `{"embedding_size": 8, `), "embedding_size"},
		{"heads that do not divide", edit("config.json", `"num_attention_heads":3`, `"num_attention_heads":5`),
			"no multiple"},
		{"another width", edit("config.json", `"intermediate_size":80`, `"intermediate_size":63`),
			"intermediate.dense"},
		{"a layer more", edit("config.json", `"num_hidden_layers":2`, `"num_hidden_layers":3`), "encoder.layer.2."},
		{"a layer less", edit("config.json", `"num_hidden_layers":2`, `"num_hidden_layers":1`), "encoder.layer.1."},
		{"a vocabulary smaller than the tokenizer's",
			edit("config.json", `"vocab_size":`, `"vocab_size":9, "summary_x":`), "ids up to"},
		{"a dense module before the pooling",
			file("modules.json",
				`[{"type": "a.Transformer", "path": ""}, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]`),
			"Dense"},
		{"another module", file("modules.json",
			`[{"type": "a.Pooling", "path": "p"}, {"type": "a.LSTM", "path": "x"}]`), "LSTM"},
		{"no pooling", file("modules.json", `[{"type": "a.Transformer", "path": ""}]`), "no Pooling"},
		{"a dense module without its settings",
			file("modules.json", `[{"type": "a.Pooling", "path": "p"}, {"type": "a.Dense", "path": "2_Dense"}]`),
			"2_Dense/config.json is missing"},
		{"pooling by the largest", file("1_Pooling/config.json",
			`{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}`), "pooling"},
		{"pooling by the mean and the first",
			file("1_Pooling/config.json",
				`{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}`), "pooling"},
		{"pooling by the last", file("1_Pooling/config.json", `{"pooling_mode": "lasttoken"}`), "lasttoken"},
		{"a folder outside", file("modules.json", `[{"type": "a.Pooling", "path": "../x"}]`), "outside"},
		{"a prompt that is not there", file("config_sentence_transformers.json",
			`{"prompts": {"a": "b"}, "default_prompt_name": "query"}`), `"query"`},
		{"vectors that are cut", file("config_sentence_transformers.json", `{"truncate_dim": 8}`), "truncate_dim is 8"},
		{"a vocabulary of sentencepiece only", func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "tokenizer.json"), filepath.Join(dir, "spiece.model")); err != nil {
				t.Fatal(err)
			}
		}, "AutoTokenizer.from_pretrained"},
		{"too long texts", file("sentence_bert_config.json", `{"max_seq_length": 65}`), "max_seq_length"},
		{"no room", file("sentence_bert_config.json", `{"max_seq_length": 2}`), "max_seq_length"},
		{"lower case here", file("sentence_bert_config.json", `{"max_seq_length": 32, "do_lower_case": true}`),
			"do_lower_case"},
		{"weights cut short", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, safetensors.ModelFile), 5000); err != nil {
				t.Fatal(err)
			}
		}, safetensors.ModelFile},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := bertFolder(t)
			k.spoil(t, dir)
			refused(t, dir, k.want)
		})
	}
	for _, k := range []struct {
		name, file, from, to, want string
	}{
		{"another inner layer", "config.json", `"relu"`, `"gated-silu"`, "gated-silu"},
		{"an unknown field of T5", "config.json", `{`, `{"scalable_attention": true, `, "scalable_attention"},
		{"an inner layer that contradicts itself", "config.json", `{`, `{"dense_act_fn": "gelu_new", `, "dense_act_fn"},
		{"an odd number of buckets", "config.json", `"relative_attention_num_buckets":32`,
			`"relative_attention_num_buckets":31`, "31"},
		{"a distance within the buckets", "config.json", `{`, `{"relative_attention_max_distance": 8, `,
			"max_distance is 8"},
		{"heads of another width", "config.json", `"d_kv":32`, `"d_kv":7`, "SelfAttention.q"},
		{"a gate that is missing", "config.json", `"relu"`, `"gated-gelu"`, "wi_0"},
		{"a dense layer of another width", "2_Dense/config.json", `"in_features":48`, `"in_features":47`,
			"in_features is 47"},
		{"a dense layer with another activation", "2_Dense/config.json", `Identity`, `GELU`, "GELU"},
		{"a dense layer without its bias", "2_Dense/config.json", `"bias":false`, `"bias":true`, "linear.bias"},
		{"a dense layer of another height", "2_Dense/config.json", `40`, `39`, "linear.weight"},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := t5Folder(t)
			edit(k.file, k.from, k.to)(t, dir)
			refused(t, dir, k.want)
		})
	}
}

// A folder that has SentencePiece's own file instead of tokenizer.json gives the ids of one that has what
// transformers makes of it.
func TestSentencePieceFile(t *testing.T) {
	dir := t5Folder(t)
	file := filepath.Join("..", "tokenizer", "testdata", "sentencepiece", "t5", "spiece.model")
	model := testfile.Read(t, file)
	tok, err := tokenizer.LoadSentencePiece(file, tokenizer.NumberingT5)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(remove, name string, content []byte) []int32 {
		t.Helper()
		testfile.Remove(t, filepath.Join(dir, remove))
		testfile.Write(t, filepath.Join(dir, name), content)
		f, err := sentence.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.IDs("the upon Lily")
	}
	resize(t, dir, tok.VocabSize())
	direct := ids("tokenizer.json", "spiece.model", model)
	converted := ids("spiece.model", "tokenizer.json", tok.JSON())
	if len(direct) < 4 || !slices.Equal(direct, converted) {
		t.Errorf("ids %v from the model file, %v from tokenizer.json", direct, converted)
	}
}

// resize makes config.json say another size of the vocabulary; the weights are not read.
func resize(t *testing.T, dir string, size int) {
	t.Helper()
	testfile.EditJSON(t, filepath.Join(dir, "config.json"), func(config map[string]any) { config["vocab_size"] = size })
}

// RoBERTa and its kin differ in nothing but their tokenizers and the defaults of sizes.
func TestRoBERTaAndItsKin(t *testing.T) {
	for _, kind := range []string{"roberta", "xlm-roberta", "camembert"} {
		dir := robertaFolder(t)
		testfile.Replace(t, filepath.Join(dir, "config.json"), `"roberta"`, `"`+kind+`"`)
		f, err := sentence.Open(dir)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, err := f.Weights(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if at, most := f.Config.Position(0, 0), f.MaxTokens; f.Config.Kind != kind || at != 2 ||
			most != f.Config.Context-2 {
			t.Errorf("%s: the first of at most %d tokens of a %s has the position %d", kind, most, f.Config.Kind, at)
		}
		f.Close()
	}
}

func refused(t *testing.T, dir, want string) {
	t.Helper()
	f, err := sentence.Open(dir)
	if err == nil {
		defer f.Close()
		_, err = f.Weights()
	}
	if err == nil {
		t.Fatal("opened")
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%q lacks %q", err, want)
	}
}

// What decides a vector decides the hash.
func TestHash(t *testing.T) {
	hash := func(spoil func(dir string)) string {
		t.Helper()
		dir := t5Folder(t)
		spoil(dir)
		f, err := sentence.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.Hash
	}
	write := func(name, content string) func(string) {
		return func(dir string) { testfile.Write(t, filepath.Join(dir, name), content) }
	}
	plain := hash(func(string) {})
	if again := hash(func(string) {}); again != plain {
		t.Errorf("the same folder has the hashes %s and %s", plain, again)
	}
	for name, spoil := range map[string]func(string){
		"pooling": write("1_Pooling/config.json", `{"pooling_mode": "cls"}`),
		"prompt":  write("config_sentence_transformers.json", `{"prompts": {"a": "b: "}, "default_prompt_name": "a"}`),
		"dense layer": write("2_Dense/config.json",
			`{"in_features": 48, "out_features": 40, "bias": false, "activation_function": "Tanh"}`),
		"length": write("sentence_bert_config.json", `{"max_seq_length": 30}`),
	} {
		if hash(spoil) == plain {
			t.Errorf("another %s has the same hash", name)
		}
	}
}
