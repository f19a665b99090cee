package bert

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/embedding"
	"popri/embedding/embeddingtest"
	"popri/embedding/sentence"
	"popri/internal/golden"
	"popri/safetensors"
	"popri/tensor"
	"popri/tokenizer"
)

type text struct {
	Kind, Text string
	IDs        []int32
}

func readTexts(t *testing.T, path string) (texts []text) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one text
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, one)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return texts
}

func strs(texts []text) []string {
	out := make([]string, len(texts))
	for i, x := range texts {
		out[i] = x.Text
	}
	return out
}

// The weights of some folders are not part of the golden data: $POPRI_MINILM names where they lie. Without it their ids
// are checked alone.
func TestGoldenEmbeddings(t *testing.T) {
	root := golden.Root(t)
	folders, err := filepath.Glob(filepath.Join(root, "embedding", "*", "meta.json"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no embeddings under %s: %v", root, err)
	}
	for _, meta := range folders {
		dir := filepath.Dir(meta)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			var m struct {
				Weights   string
				MaxTokens int `json:"max_seq_length"`
				Dimension int
			}
			golden.ReadJSON(t, meta, &m)
			texts := readTexts(t, filepath.Join(dir, "texts.jsonl"))
			weights := dir
			if m.Weights != "here" {
				if weights = os.Getenv("POPRI_MINILM"); weights == "" {
					checkIDs(t, filepath.Join(root, "tokenizers", name), m.MaxTokens, texts)
					golden.Checked(t, "embedding/"+name+" (ids)", len(texts))
					t.Logf("golden: embedding/%s: the weights are not here, POPRI_MINILM names no folder", name)
					return
				}
			}
			f, err := sentence.Open(weights)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range texts {
				if got := f.IDs(x.Text); !slices.Equal(got, x.IDs) {
					t.Errorf("%.60q: ids %v, want %v", x.Text, got, x.IDs)
				}
			}
			if f.MaxTokens != m.MaxTokens {
				t.Errorf("at most %d tokens, want %d", f.MaxTokens, m.MaxTokens)
			}
			f.Close()
			e, err := Open(weights, tensor.Float32)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Free()
			file, err := safetensors.Open(filepath.Join(dir, "embeddings.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			stored, _ := file.Tensor("embeddings")
			want, err := stored.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Encode(strs(texts))
			if err != nil {
				t.Fatal(err)
			}
			if got.Dim != m.Dimension || len(got.Data) != len(want) {
				t.Fatalf("%d×%d values, want %d of %d", got.Rows, got.Dim, len(want), m.Dimension)
			}
			for i := range want {
				if d := math.Abs(float64(got.Data[i] - want[i])); !(d <= 5e-6) {
					t.Errorf("text %d (%.60q): value %d is %g, want %g", i/got.Dim, texts[i/got.Dim].Text, i%got.Dim, got.Data[i], want[i])
				}
			}
			golden.Checked(t, "embedding/"+name, len(texts))
		})
	}
}

func checkIDs(t *testing.T, dir string, most int, texts []text) {
	t.Helper()
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	prefix, suffix := tok.Template()
	for _, x := range texts {
		ids := tok.Encode(x.Text)
		ids = ids[:min(len(ids), most-len(prefix)-len(suffix))]
		if got := slices.Concat(prefix, ids, suffix); !slices.Equal(got, x.IDs) {
			t.Errorf("%.60q: ids %v, want %v", x.Text, got, x.IDs)
		}
	}
}

// small writes a BERT with random weights and a vocabulary of letters and of the suite's words.
func small(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	vocab := map[string]int{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
	add := func(piece string) {
		if _, ok := vocab[piece]; !ok {
			vocab[piece] = len(vocab)
		}
	}
	for _, triple := range embeddingtest.Triples {
		for _, line := range triple {
			for _, word := range strings.Fields(line) {
				add(word)
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		add(string(c))
		add("##" + string(c))
	}
	type object = map[string]any
	special := func(name string) object {
		return object{"id": vocab[name], "content": name, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
	}
	part := func(name string) object { return object{"SpecialToken": object{"id": name, "type_id": 0}} }
	write := func(name string, v any) {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", object{"version": "1.0", "added_tokens": []any{special("[PAD]"), special("[UNK]"), special("[CLS]"), special("[SEP]")},
		"normalizer":    object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": true},
		"pre_tokenizer": object{"type": "BertPreTokenizer"},
		"post_processor": object{"type": "TemplateProcessing", "single": []any{part("[CLS]"), object{"Sequence": object{"id": "A", "type_id": 0}}, part("[SEP]")},
			"special_tokens": object{"[CLS]": object{"id": "[CLS]", "ids": []int{2}, "tokens": []string{"[CLS]"}}, "[SEP]": object{"id": "[SEP]", "ids": []int{3}, "tokens": []string{"[SEP]"}}}},
		"decoder": object{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model":   object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}})
	const h, in, layers, context = 48, 64, 2, 64
	write("config.json", object{"model_type": "bert", "vocab_size": len(vocab), "hidden_size": h, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": in,
		"max_position_embeddings": context, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"})
	seed := uint64(1)
	var tensors []safetensors.Tensor
	random := func(name string, spread float32, around float32, shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		data := make([]float32, n)
		for i := range data {
			seed = seed*6364136223846793005 + 1442695040888963407
			data[i] = around + spread*(float32(seed>>40)/(1<<23)-1)
		}
		tensors = append(tensors, safetensors.FromFloat32(name, shape, data))
	}
	norm := func(name string) { random(name+".weight", 0.1, 1, h); random(name+".bias", 0.1, 0, h) }
	dense := func(name string, out, in int64) {
		random(name+".weight", 0.1, 0, out, in)
		random(name+".bias", 0.1, 0, out)
	}
	random("embeddings.word_embeddings.weight", 1, 0, int64(len(vocab)), h)
	random("embeddings.position_embeddings.weight", 0.1, 0, context, h)
	random("embeddings.token_type_embeddings.weight", 0.1, 0, 2, h)
	norm("embeddings.LayerNorm")
	for _, p := range []string{"encoder.layer.0.", "encoder.layer.1."} {
		for _, name := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"} {
			dense(p+name, h, h)
		}
		norm(p + "attention.output.LayerNorm")
		dense(p+"intermediate.dense", in, h)
		dense(p+"output.dense", h, in)
		norm(p + "output.LayerNorm")
	}
	if err := safetensors.Write(filepath.Join(dir, safetensors.ModelFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEncoder(t *testing.T) {
	e, err := Open(small(t), tensor.Float32)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Free()
	embeddingtest.Run(t, e, 2e-6)
	if embedding.Key(e) == "" || e.Hash() == "" {
		t.Error("no key")
	}
}

// bfloat16 blurs and does not turn.
func TestBFloat16(t *testing.T) {
	dir := small(t)
	var vectors []embedding.Matrix
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		e, err := Open(dir, d)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Encode([]string{"the reader returns how many bytes were read", "fresh bread"})
		if err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, m)
		e.Free()
	}
	for i := range vectors[0].Rows {
		if c := embeddingtest.Dot(vectors[0].Row(i), vectors[1].Row(i)); !(c > 0.999) {
			t.Errorf("text %d: cosine %g", i, c)
		}
	}
}

// What a folder asks for and the encoder does not do, and what is damaged, is named.
func TestOpenRefuses(t *testing.T) {
	live := tensor.Live()
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
			dir := small(t)
			k.spoil(t, dir)
			e, err := Open(dir, tensor.Float32)
			if err == nil {
				e.Free()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), k.want) {
				t.Errorf("%q lacks %q", err, k.want)
			}
		})
	}
	if now := tensor.Live(); now != live {
		t.Errorf("%d tensors were left behind", now-live)
	}
}

// BenchmarkEncode needs real weights to say anything: $POPRI_MINILM.
func BenchmarkEncode(b *testing.B) {
	dir := os.Getenv("POPRI_MINILM")
	if dir == "" {
		b.Skip("POPRI_MINILM names no folder")
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		b.Run(d.String(), func(b *testing.B) {
			e, err := Open(dir, d)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Free()
			var texts []string
			for i := range 500 {
				triple := embeddingtest.Triples[i%len(embeddingtest.Triples)]
				texts = append(texts, strings.Repeat(triple[i/3%3]+". ", 1+i%6))
			}
			n := 0
			for b.Loop() {
				if _, err := e.Encode(texts); err != nil {
					b.Fatal(err)
				}
				n += len(texts)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}
