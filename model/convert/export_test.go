package convert_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/model/convert"
	"popri/model/gguf"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/testkit/gguftest"
	"popri/testkit/golden"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// goldenFiles are the GGUF files of the golden cases.
func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(golden.Folder(t, "gguf"), "*", "model.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no models (%v)", err)
	}
	return files
}

// export writes the model of dir as a file.
func export(t *testing.T, dir, kind string) (path string, s *convert.ExportSummary) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.gguf")
	s, err := exportTo(t, dir, convert.ExportOptions{Out: path, Type: kind})
	if err != nil {
		t.Fatal(err)
	}
	return path, s
}

func exportTo(t *testing.T, dir string, o convert.ExportOptions) (*convert.ExportSummary, error) {
	t.Helper()
	m, err := lm.OpenStored(dir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return convert.Export(t.Context(), &convert.Folder{Dir: dir, Config: m.Config, Stated: m.Stated, Tensors: m.Tensors}, o)
}

func importTo(t *testing.T, file, dtype string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "model")
	if _, err := convert.Import(t.Context(), file, convert.Options{Out: dir, DType: dtype}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestExportIsTheInverse: of a folder that was imported, exported and imported again, all is as it was; the weights in
// float32 exactly, in half precision rounded.
func TestExportIsTheInverse(t *testing.T) {
	for _, file := range goldenFiles(t) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			dir := importTo(t, file, "float32")
			for kind, tolerance := range map[string]float64{"f32": 0, "f16": 1.0 / 2048, "bf16": 1.0 / 256} {
				path, s := export(t, dir, kind)
				again := importTo(t, path, "float32")
				for _, name := range []string{"config.json", "generation_config.json", "tokenizer_config.json"} {
					if a, b := readJSON(t, filepath.Join(dir, name)), readJSON(t, filepath.Join(again, name)); !reflect.DeepEqual(a, b) {
						t.Errorf("%s: %s is\n%v, was\n%v", kind, name, b, a)
					}
				}
				if info, err := os.Stat(path); err != nil || info.Size() != s.Bytes {
					t.Errorf("%v bytes of %d (%v)", info, s.Bytes, err)
				}
				sameTokens(t, dir, again)
				sameWeights(t, dir, again, tolerance)
				if kind == "f32" {
					m := testmodel.Load(t, again, lm.Options{})
					checkLogits(t, filepath.Dir(file), m)
					checkTexts(t, filepath.Dir(file), again)
					m.Free()
				}
			}
		})
	}
}

func sameTokens(t *testing.T, dir, again string) {
	t.Helper()
	a := testmodel.Tokenizer(t, dir)
	b := testmodel.Tokenizer(t, again)
	if string(a.JSON()) != string(b.JSON()) {
		t.Errorf("the tokenizer is\n%s, was\n%s", b.JSON(), a.JSON())
	}
}

func sameWeights(t *testing.T, dir, again string, tolerance float64) {
	t.Helper()
	a, err := safetensors.OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := safetensors.OpenModel(again)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if !slices.Equal(a.Names(), b.Names()) {
		t.Errorf("tensors are %v, were %v", b.Names(), a.Names())
	}
	for _, name := range a.Names() {
		x, _ := a.Tensor(name)
		y, _ := b.Tensor(name)
		was, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		is, err := y.Float32s()
		if err != nil || len(is) != len(was) {
			t.Fatal(name, err)
		}
		for i := range was {
			if d := math.Abs(float64(was[i] - is[i])); !(d <= tolerance*math.Abs(float64(was[i]))+tolerance*1e-4) {
				t.Errorf("%s: value %d is %v, was %v", name, i, is[i], was[i])
				break
			}
		}
	}
}

// edit changes a JSON file of a folder; "a.b" names the field b of a.
func edit(t *testing.T, path, field string, value any) {
	t.Helper()
	all := readJSON(t, path)
	at := all
	parts := strings.Split(field, ".")
	for _, part := range parts[:len(parts)-1] {
		at = at[part].(map[string]any)
	}
	if at[parts[len(parts)-1]] = value; value == nil {
		delete(at, parts[len(parts)-1])
	}
	testfile.WriteJSON(t, path, all)
}

// What llama.cpp would compute otherwise is refused with file, key and value, and nothing is left behind.
func TestExportRefuses(t *testing.T) {
	const config, tokens, token = "config.json", "tokenizer.json", "tokenizer_config.json"
	for name, c := range map[string]struct {
		file, field string
		value       any
		o           convert.ExportOptions
		want        []string
	}{
		"type":            {"", "", nil, convert.ExportOptions{Type: "q4_k"}, []string{`"q4_k"`, "f16, q8_0, q4_0"}},
		"no type":         {"", "", nil, convert.ExportOptions{Type: ""}, []string{`the type is ""`}},
		"family":          {config, "model_type", "mamba", convert.ExportOptions{}, []string{`"mamba"`, "llama, mistral"}},
		"unknown field":   {config, "clip_qkv", 8, convert.ExportOptions{}, []string{config, "clip_qkv"}},
		"dynamic":         {config, "rope_scaling", map[string]any{"rope_type": "yarn", "factor": 4}, convert.ExportOptions{}, []string{config, "rope_scaling", "yarn"}},
		"no tokenizer":    {tokens, "", nil, convert.ExportOptions{}, []string{tokens, "no such file"}},
		"unigram":         {tokens, "model.type", "Unigram", convert.ExportOptions{}, []string{tokens}},
		"prefix space":    {tokens, "pre_tokenizer", map[string]any{"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}, convert.ExportOptions{}, []string{tokens, "pre_tokenizer"}},
		"normalizer":      {tokens, "normalizer", map[string]any{"type": "NFC"}, convert.ExportOptions{}, []string{tokens, "normalizer", "counterpart"}},
		"no such token":   {token, "unk_token", "<none>", convert.ExportOptions{}, []string{token, "unk_token", `"<none>"`}},
		"template":        {tokens, "post_processor", around(255), convert.ExportOptions{}, []string{tokens, "post_processor", "[255]", "bos_token"}},
		"white space":     {tokens, "added_tokens", []any{map[string]any{"id": 257, "content": "<|end|>", "special": true, "rstrip": true}}, convert.ExportOptions{}, []string{tokens, "rstrip", `"<|end|>"`, "--accept-key rstrip"}},
		"more ends":       {"generation_config.json", "eos_token_id", []int{1, 2, 3, 4}, convert.ExportOptions{}, []string{"eos_token_id", "5 tokens"}},
		"rows":            {config, "vocab_size", 300, convert.ExportOptions{}, []string{"embed_tokens", "[258 8]", "[300 8]"}},
		"layers":          {config, "num_hidden_layers", 3000, convert.ExportOptions{}, []string{config, "num_hidden_layers", "is 3000"}},
		"missing tensor":  {config, "num_hidden_layers", 2, convert.ExportOptions{}, []string{"model.layers.1.", "is missing"}},
		"no output":       {"", "", nil, convert.ExportOptions{Out: "-"}, []string{"no file is named"}},
		"README":          {"README.md", "", "---\nlicense: [\n---\n", convert.ExportOptions{}, []string{"README.md"}},
		"existing output": {"", "", nil, convert.ExportOptions{Out: "here"}, []string{"exists already"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _, err := importFile(t, llama(), convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.file)
			switch text, isText := c.value.(string); {
			case c.file != "" && c.field != "":
				edit(t, path, c.field, c.value)
			case isText:
				testfile.Write(t, path, text)
			case c.file != "":
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			parent := t.TempDir()
			if c.o.Type == "" && name != "no type" {
				c.o.Type = "f16"
			}
			switch c.o.Out {
			case "-":
				c.o.Out = ""
			case "here":
				c.o.Out = filepath.Join(dir, "config.json")
			default:
				c.o.Out = filepath.Join(parent, "x.gguf")
			}
			_, err = exportTo(t, dir, c.o)
			for _, want := range c.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
			if strings.HasPrefix(fmt.Sprint(err), "model export") && !fault.IsUser(err) {
				t.Errorf("%v is not the user's mistake", err)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("%v is left (%v)", left, err)
			}
		})
	}
}

// around is a post-processor that puts a token before a text.
func around(id int) any {
	return map[string]any{"type": "TemplateProcessing", "pair": []any{},
		"single":         []any{map[string]any{"SpecialToken": map[string]any{"id": "x", "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}},
		"special_tokens": map[string]any{"x": map[string]any{"id": "x", "ids": []int{id}, "tokens": []string{"x"}}}}
}

// What a folder may say besides, and what the file says then.
func TestExportVariants(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *gguftest.File)
		file map[string]map[string]any // fields of the folder's files
		want map[string]any
	}{
		"scaled": {func(f *gguftest.File) {
			f.Set("llama.attention.head_count", uint32(1))
			f.Set("llama.rope.freq_base", float32(500000))
			f.Float32s("rope_freqs.weight", []float32{1, 1, llama3Blend(500000, 0.5, 8), 8}, 4)
		}, nil, map[string]any{"llama.rope.freq_base": 500000.0}},
		"linear": {func(f *gguftest.File) {
			f.Set("llama.rope.scaling.type", "linear")
			f.Set("llama.rope.scaling.factor", float32(4))
		}, nil, map[string]any{"llama.rope.scaling.factor": 4.0}},
		"biases": {func(f *gguftest.File) {
			for name, n := range map[string]int64{"attn_q": 8, "attn_k": 8, "attn_v": 8, "attn_output": 8, "ffn_gate": 4,
				"ffn_up": 4, "ffn_down": 8} {
				f.Float32s("blk.0."+name+".bias", counting(n, 1), n)
			}
		}, nil, nil},
		"untied": {func(f *gguftest.File) { f.Float32s("output.weight", counting(258*8, 1), 258, 8) }, nil, nil},
		"ends": {func(f *gguftest.File) {
			f.Set("tokenizer.ggml.eot_token_id", uint32(256))
			f.Set("tokenizer.ggml.eom_token_id", uint32(255))
		}, nil, map[string]any{"tokenizer.ggml.eom_token_id": 255}},
		"window": {func(f *gguftest.File) { f.Set("llama.attention.sliding_window", uint32(8)) }, nil,
			map[string]any{"llama.context_length": 8}},
		"template": {func(f *gguftest.File) { f.Set("tokenizer.chat_template", "{{ messages }}") }, nil,
			map[string]any{"tokenizer.chat_template": "{{ messages }}"}},
		"name": {func(*gguftest.File) {}, map[string]map[string]any{"config.json": {"_name_or_path": "me/phi3-mine"}},
			map[string]any{"general.name": "Phi 3-mine"}},
		"unused": {func(f *gguftest.File) {
			f.Tensors[0].Shape[0]++
			f.Tensors[0].Blocks = append(f.Tensors[0].Blocks, make([]byte, 32)...)
		},
			nil, map[string]any{"llama.vocab_size": 259}},
	} {
		t.Run(name, func(t *testing.T) {
			f := llama()
			c.edit(f)
			dir, _, err := importFile(t, f, convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for file, fields := range c.file {
				for field, value := range fields {
					edit(t, filepath.Join(dir, file), field, value)
				}
			}
			path, _ := export(t, dir, "f32")
			file, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			for key, want := range c.want {
				text, _, _ := file.Text(key)
				number, _, _ := file.Float(key)
				n, _, _ := file.Int(key)
				if got := cmp.Or[any](text, number, int(n)); got != want && number != want && int(n) != want {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
			again := importTo(t, path, "float32")
			sameWeights(t, dir, again, 0)
			sameTokens(t, dir, again)
			if a, b := readJSON(t, filepath.Join(dir, "config.json")), readJSON(t, filepath.Join(again, "config.json")); name != "window" &&
				name != "name" && !reflect.DeepEqual(a, b) {
				t.Errorf("config.json is\n%v, was\n%v", b, a)
			}
		})
	}
}

// README.md's front matter names licence and base model.
func TestExportCard(t *testing.T) {
	dir, _, err := importFile(t, llama(), convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for card, want := range map[string]map[string]string{
		"---\nlicense: mit\nbase_model: a/b\nmodel_name: Mine\n---\n# x\n": {"general.name": "Mine", "general.license": "mit",
			"general.base_model.0.name": "b", "general.base_model.0.repo_url": "https://huggingface.co/a/b"},
		"---\nbase_model:\n- a/b\n- c\n---\n": {"general.base_model.1.name": "c", "general.name": "model"},
		"# no front matter\n---\n":            {"general.license": ""},
	} {
		testfile.Write(t, filepath.Join(dir, "README.md"), card)
		path, _ := export(t, dir, "f16")
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range want {
			if got, _, _ := f.Text(key); got != want {
				t.Errorf("%q: %s is %q, want %q", card, key, got, want)
			}
		}
		f.Close()
	}
}

// An export that is interrupted leaves nothing.
func TestExportInterrupted(t *testing.T) {
	dir, _, err := importFile(t, llama(), convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.OpenStored(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := t.TempDir()
	_, err = convert.Export(ctx, &convert.Folder{Dir: dir, Config: m.Config, Stated: m.Stated, Tensors: m.Tensors}, convert.ExportOptions{
		Out: filepath.Join(out, "x.gguf"), Type: "q8_0", Progress: func(done, _ int) {
			if done == 3 {
				cancel()
			}
		}})
	if left, broken := os.ReadDir(out); !errors.Is(err, context.Canceled) || broken != nil || len(left) > 0 {
		t.Errorf("%v; %v is left (%v)", err, left, broken)
	}
}
