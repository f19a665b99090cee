package convert_test

import (
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
	"popri/internal/filelock"
	"popri/model/convert"
	"popri/model/safetensors"
	"popri/testkit/gguftest"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

const (
	hidden = 8
	heads  = 2
	inner  = 4
)

// counting returns n values that tell where they stood.
func counting(n int64, scale float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = scale * float32(i)
	}
	return out
}

// llama is a LLaMA of one layer with a byte-level vocabulary of all bytes and one special token.
func llama() *gguftest.File {
	pieces, types := byteLevel(), slices.Repeat([]int32{1}, 256)
	pieces, types = append(pieces, "he", "<|end|>"), append(types, 1, 3)
	f := &gguftest.File{Entries: []gguftest.Entry{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "test"},
		{Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.context_length", Value: uint32(16)},
		{Key: "llama.embedding_length", Value: uint32(hidden)},
		{Key: "llama.feed_forward_length", Value: uint32(inner)},
		{Key: "llama.attention.head_count", Value: uint32(heads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "smollm"},
		{Key: "tokenizer.ggml.tokens", Value: pieces},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{"h e"}},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(257)},
	}}
	add := func(name string, shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		f.Float32s(name, counting(n, 0.5), shape...)
	}
	add("token_embd.weight", 258, hidden)
	add("output_norm.weight", hidden)
	add("blk.0.attn_norm.weight", hidden)
	add("blk.0.ffn_norm.weight", hidden)
	for _, name := range []string{"q", "k", "v", "output"} {
		add("blk.0.attn_"+name+".weight", hidden, hidden)
	}
	add("blk.0.ffn_gate.weight", inner, hidden)
	add("blk.0.ffn_up.weight", inner, hidden)
	add("blk.0.ffn_down.weight", hidden, inner)
	return f
}

// byteLevel returns the piece of each byte, as GPT-2 writes them.
func byteLevel() []string {
	pieces, next := make([]string, 256), rune(256)
	for b := range pieces {
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r && r <= 0xff) {
			r = next
			next++
		}
		pieces[b] = string(r)
	}
	return pieces
}

func importFile(t *testing.T, f *gguftest.File, o convert.Options) (dir string, s *convert.Summary, err error) {
	t.Helper()
	if o.Out == "" {
		o.Out = filepath.Join(t.TempDir(), "model")
	}
	s, err = convert.Import(t.Context(), f.Write(t), o)
	return o.Out, s, err
}

func readJSON(t *testing.T, path string) map[string]any {
	t.Helper()
	var v map[string]any
	testfile.ReadJSON(t, path, &v)
	return v
}

func weights(t *testing.T, dir, name string) ([]float32, safetensors.Tensor) {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, safetensors.ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("there is no %s, but %v", name, f.Names())
	}
	values, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	x.Data = nil
	return values, x
}

func TestImport(t *testing.T) {
	calls := 0
	dir, s, err := importFile(t, llama(), convert.Options{Progress: func(done, total int) {
		if calls++; done != calls || total != 11 {
			t.Errorf("%d of %d at call %d", done, total, calls)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 11 || s.Vocabulary != 258 || s.Parameters != 258*8+3*8+4*64+3*32 || s.DType != "float32" || !s.Tied ||
		s.Architecture != "llama" || s.Types["F32"] != 11 || s.Context != 16 || s.Name != "test" {
		t.Errorf("%d calls, %+v", calls, s)
	}
	c := readJSON(t, filepath.Join(dir, "config.json"))
	for key, want := range map[string]any{"model_type": "llama", "head_dim": 4.0, "num_key_value_heads": 2.0,
		"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": nil, "tie_word_embeddings": true,
		"vocab_size":   258.0,
		"eos_token_id": 257.0,
		"torch_dtype":  "float32", "attention_bias": false} {
		if got, ok := c[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if g := readJSON(t, filepath.Join(dir, "generation_config.json")); g["eos_token_id"] != 257.0 {
		t.Errorf("%v", g)
	}
	tok := testmodel.Tokenizer(t, dir)
	if eos, ok := tok.EOS(); eos != 257 || !ok {
		t.Errorf("the end of text is %d", eos)
	}
	if got := tok.Encode("he1<|end|>"); !slices.Equal(got, []int32{256, '1', 257}) {
		t.Errorf("%v", got)
	}
	// Rows of a head come in pairs in the file: 0 and 1 are the first dimension of both halves.
	q, _ := weights(t, dir, "model.layers.0.self_attn.q_proj.weight")
	v, x := weights(t, dir, "model.layers.0.self_attn.v_proj.weight")
	if !slices.Equal(v, counting(64, 0.5)) || !slices.Equal(x.Shape, []int64{8, 8}) {
		t.Errorf("values are %v", v)
	}
	for row, from := range []int{0, 2, 1, 3, 4, 6, 5, 7} {
		if !slices.Equal(q[row*8:row*8+8], v[from*8:from*8+8]) {
			t.Errorf("row %d of the queries is %v", row, q[row*8:row*8+8])
		}
	}
	if again, err := convert.Import(t.Context(), llama().Write(t), convert.Options{Out: dir}); again != nil ||
		!fault.IsUser(err) || !strings.Contains(err.Error(), dir) {
		t.Errorf("into a folder in use: %v", err)
	}
}

// What a file may say besides, and what becomes of it.
func TestVariants(t *testing.T) {
	with := func(key string, value any) func(*gguftest.File) {
		return func(f *gguftest.File) { f.Set(key, value) }
	}
	for name, c := range map[string]struct {
		edit func(f *gguftest.File)
		o    convert.Options
		want map[string]any
	}{
		"linear":  {with("llama.rope.scaling.type", "linear"), convert.Options{}, map[string]any{"rope_scaling": nil}},
		"theta":   {with("llama.rope.freq_base", float32(1e5)), convert.Options{}, map[string]any{"rope_theta": 1e5}},
		"experts": {with("llama.expert_count", uint32(0)), convert.Options{}, nil},
		"accepted": {with("llama.logit_scale", float32(2)), convert.Options{Accept: []string{"llama.logit_scale"}},
			nil},
		"linear 4": {func(f *gguftest.File) {
			f.Set("llama.rope.scaling.type", "linear")
			f.Set("llama.rope.scaling.factor", float32(4))
		}, convert.Options{}, map[string]any{"rope_scaling": map[string]any{"rope_type": "linear", "factor": 4.0}}},
		"llama3": {func(f *gguftest.File) {
			f.Set("llama.attention.head_count", uint32(1))
			f.Set("llama.rope.freq_base", float32(500000))
			f.Float32s("rope_freqs.weight", []float32{1, 1, llama3Blend(500000, 0.5, 8), 8}, 4)
		}, convert.Options{}, nil},
		"untied": {func(f *gguftest.File) { f.Float32s("output.weight", make([]float32, 258*8), 258, 8) },
			convert.Options{}, map[string]any{"tie_word_embeddings": false}},
		"window": {with("llama.attention.sliding_window", uint32(8)), convert.Options{},
			map[string]any{"model_type": "mistral", "sliding_window": 8.0}},
		"wide window": {with("llama.attention.sliding_window", uint32(4096)), convert.Options{},
			map[string]any{"model_type": "llama"}},
		"two ends": {with("tokenizer.ggml.eot_token_id", uint32(256)), convert.Options{},
			map[string]any{"eos_token_id": 257.0}},
		"end by its text": {with("tokenizer.ggml.eos_token_id", uint32(256)), convert.Options{},
			map[string]any{"eos_token_id": 256.0}},
		"half": {func(*gguftest.File) {}, convert.Options{DType: "float16"}, map[string]any{"dtype": "float16"}},
		"brain": {func(*gguftest.File) {}, convert.Options{DType: "bfloat16"},
			map[string]any{"dtype": "bfloat16"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := llama()
			c.edit(f)
			dir, _, err := importFile(t, f, c.o)
			if err != nil {
				t.Fatal(err)
			}
			config := readJSON(t, filepath.Join(dir, "config.json"))
			for key, want := range c.want {
				if got := config[key]; !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
			switch name {
			case "llama3":
				scaling, ok := config["rope_scaling"].(map[string]any)
				if !ok || scaling["rope_type"] != "llama3" || math.Abs(scaling["factor"].(float64)-8) > 1e-6 {
					t.Errorf("rope_scaling is %v", config["rope_scaling"])
				}
			case "two ends", "end by its text":
				want := map[string][]any{"two ends": {257.0, 256.0}, "end by its text": {256.0, 257.0}}[name]
				if g := readJSON(t, filepath.Join(dir, "generation_config.json")); !reflect.DeepEqual(g["eos_token_id"], want) {
					t.Errorf("%v", g)
				}
			case "half", "brain":
				want := map[string]safetensors.DType{"half": safetensors.F16, "brain": safetensors.BF16}[name]
				if v, x := weights(t, dir, "model.norm.weight"); x.DType != want || !slices.Equal(v, counting(8, 0.5)) {
					t.Errorf("%s %v", x.DType, v)
				}
			}
		})
	}
}

// llama3Blend is what LLaMA 3.1 divides the frequency theta^-exponent by, whose wavelength is between its two limits.
func llama3Blend(theta, exponent, factor float64) float32 {
	smooth := (8192/(2*math.Pi*math.Pow(theta, exponent)) - 1) / 3
	return float32(1 / ((1-smooth)/factor + smooth))
}

// What would make another model, or none, is refused with file, key or tensor, and value; nothing is left behind.
func TestRefuses(t *testing.T) {
	set := func(key string, value any) func(*gguftest.File) {
		return func(f *gguftest.File) { f.Set(key, value) }
	}
	tensor := func(name string, edit func(x *gguftest.Tensor)) func(*gguftest.File) {
		return func(f *gguftest.File) {
			i := slices.IndexFunc(f.Tensors, func(x gguftest.Tensor) bool { return x.Name == name })
			edit(&f.Tensors[i])
		}
	}
	for name, c := range map[string]struct {
		edit func(f *gguftest.File)
		o    convert.Options
		want []string
	}{
		"architecture": {set("general.architecture", "mamba"), convert.Options{},
			[]string{"general.architecture", `"mamba"`, "gpt2, granite, llama, olmo2, phi3, qwen2"}},
		"part":    {set("split.count", uint32(3)), convert.Options{}, []string{"split.count", "is 3"}},
		"adapter": {set("general.type", "adapter"), convert.Options{}, []string{"general.type", `"adapter"`}},
		"missing key": {set("llama.block_count", nil), convert.Options{},
			[]string{"llama.block_count", "is missing"}},
		"text for number": {set("llama.block_count", "one"), convert.Options{},
			[]string{"llama.block_count", "of type text"}},
		"zero layers": {set("llama.block_count", uint32(0)), convert.Options{},
			[]string{"llama.block_count", "is 0"}},
		"many layers": {set("llama.block_count", uint32(1<<24)), convert.Options{},
			[]string{"llama.block_count", "16777216"}},
		"heads": {set("llama.attention.head_count", uint32(3)), convert.Options{},
			[]string{"llama.embedding_length", "is 8", "3 heads"}},
		"key heads": {set("llama.attention.head_count_kv", uint32(3)), convert.Options{},
			[]string{"llama.attention.head_count_kv", "is 3"}},
		"partial rotation": {set("llama.rope.dimension_count", uint32(2)), convert.Options{},
			[]string{"llama.rope.dimension_count", "is 2"}},
		"epsilon": {set("llama.attention.layer_norm_rms_epsilon", float32(-1)), convert.Options{},
			[]string{"layer_norm_rms_epsilon", "is -1"}},
		"yarn": {set("llama.rope.scaling.type", "yarn"), convert.Options{},
			[]string{"llama.rope.scaling.type", `"yarn"`}},
		"experts": {set("llama.expert_count", uint32(8)), convert.Options{},
			[]string{"llama.expert_count", "--accept-key llama.expert_count"}},
		"unknown tensor": {func(f *gguftest.File) { f.Float32s("blk.0.gate.weight", []float32{1}, 1) },
			convert.Options{}, []string{"blk.0.gate.weight", "does not belong"}},
		"no tensor": {tensor("blk.0.ffn_up.weight", func(x *gguftest.Tensor) { x.Name = "blk.1.ffn_up.weight" }),
			convert.Options{}, []string{"blk.0.ffn_up.weight", "is missing"}},
		"shape": {tensor("blk.0.ffn_up.weight", func(x *gguftest.Tensor) { x.Shape = []int64{8, 4} }),
			convert.Options{}, []string{"blk.0.ffn_up.weight", "[8 4]", "[4 8]"}},
		"not a number": {tensor("blk.0.ffn_up.weight",
			func(x *gguftest.Tensor) { copy(x.Blocks[8:], []byte{0, 0, 0xc0, 0x7f}) }),
			convert.Options{}, []string{"blk.0.ffn_up.weight", "NaN"}},
		"past half": {tensor("blk.0.ffn_up.weight",
			func(x *gguftest.Tensor) { copy(x.Blocks[8:], []byte{0, 0, 0x80, 0x47}) }),
			convert.Options{DType: "float16"}, []string{"blk.0.ffn_up.weight", "65536", "--dtype float32"}},
		"rope factors": {func(f *gguftest.File) { f.Float32s("rope_freqs.weight", []float32{1, 5}, 2) },
			convert.Options{}, []string{"rope_freqs.weight", "the scaling of LLaMA 3"}},
		"data type": {func(*gguftest.File) {}, convert.Options{DType: "int8"}, []string{`"int8"`, "bfloat16"}},
		"vocabulary": {set("tokenizer.ggml.model", nil), convert.Options{},
			[]string{"tokenizer.ggml.model", "is missing"}},
		"unigram": {set("tokenizer.ggml.model", "t5"), convert.Options{}, []string{"tokenizer.ggml.model", `"t5"`}},
		"no split": {set("tokenizer.ggml.pre", nil), convert.Options{},
			[]string{"tokenizer.ggml.pre", "is missing", "smollm"}},
		"other split": {set("tokenizer.ggml.pre", "tekken"), convert.Options{},
			[]string{"tokenizer.ggml.pre", `"tekken"`, "smollm"}},
		"merge": {set("tokenizer.ggml.merges", []string{"h e", "he"}), convert.Options{},
			[]string{"tokenizer.ggml.merges", "line 2", `"he"`}},
		"lost merge": {set("tokenizer.ggml.merges", []string{}), convert.Options{},
			[]string{"a merge is missing", `"he"`}},
		"kinds": {set("tokenizer.ggml.token_type", []int32{1}), convert.Options{},
			[]string{"token_type", "1 elements for 258 tokens"}},
		"end": {set("tokenizer.ggml.eos_token_id", uint32(258)), convert.Options{},
			[]string{"eos_token_id", "is 258", "258 tokens"}},
		"beginning": {set("tokenizer.ggml.add_bos_token", true), convert.Options{},
			[]string{"add_bos_token", "which token"}},
		"rows": {tensor("token_embd.weight",
			func(x *gguftest.Tensor) { x.Shape, x.Blocks = []int64{200, 8}, x.Blocks[:200*8*4] }),
			convert.Options{}, []string{"tokenizer.ggml.tokens", "258", "200 rows"}},
		"scores": {set("tokenizer.ggml.model", "llama"), convert.Options{},
			[]string{"tokenizer.ggml.scores", "0 elements"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := llama()
			c.edit(f)
			parent := t.TempDir()
			c.o.Out = filepath.Join(parent, "model")
			path := f.Write(t)
			_, err := convert.Import(t.Context(), path, c.o)
			if !fault.IsUser(err) {
				t.Errorf("%v is not the user's mistake", err)
			}
			for _, want := range c.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
			if name != "data type" && !strings.Contains(fmt.Sprint(err), path) {
				t.Errorf("%v does not name the file", err)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
	for _, o := range []convert.Options{{}, {Out: filepath.Join(t.TempDir(), "x")}} {
		if _, err := convert.Import(t.Context(), filepath.Join(t.TempDir(), "none.gguf"), o); !fault.IsUser(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// An import that is interrupted leaves nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	parent := t.TempDir()
	_, err := convert.Import(ctx, llama().Write(t), convert.Options{Out: filepath.Join(parent, "sub", "model"),
		Progress: func(done, _ int) {
			if done == 3 {
				cancel()
			}
		}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(parent, "sub")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestUnwritable: a folder that cannot be made is refused before the file is read, and nothing is left behind.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	file := testfile.Write(t, filepath.Join(dir, "file"), "")
	for _, out := range []string{file, filepath.Join(file, "model"), filepath.Join(file, "far", "model")} {
		_, err := convert.Import(t.Context(), "not read", convert.Options{Out: out})
		if !fault.IsUser(err) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "not read") {
			t.Errorf("%s: %v", out, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is there (%v)", left, err)
	}
}

// TestAbandoned: an import removes what a killed one left of the same folder, and leaves what another works on.
func TestAbandoned(t *testing.T) {
	dir := t.TempDir()
	dead, alive := filepath.Join(dir, ".tmp-model-1"), filepath.Join(dir, ".tmp-model-2")
	for _, left := range []string{dead, alive} {
		testfile.Folder(t, left)
	}
	lock, err := filelock.Folder(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, _, err := importFile(t, llama(), convert.Options{Out: filepath.Join(dir, "model")}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed import left is still there (%v)", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v is there (%v)", left, err)
	}
}

// An empty folder is taken.
func TestEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := importFile(t, llama(), convert.Options{Out: dir}); err != nil {
		t.Error(err)
	}
}

// Biases of queries and keys are permuted as their rows are.
func TestBiases(t *testing.T) {
	f := llama()
	for name, n := range map[string]int64{"attn_q": 8, "attn_k": 8, "attn_v": 8, "attn_output": 8, "ffn_gate": 4,
		"ffn_up": 4, "ffn_down": 8} {
		f.Float32s("blk.0."+name+".bias", counting(n, 1), n)
	}
	dir, _, err := importFile(t, f, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := weights(t, dir, "model.layers.0.self_attn.k_proj.bias"); !slices.Equal(b,
		[]float32{0, 2, 1, 3, 4, 6, 5, 7}) {
		t.Errorf("%v", b)
	}
	if b, _ := weights(t, dir, "model.layers.0.mlp.up_proj.bias"); !slices.Equal(b, []float32{0, 1, 2, 3}) {
		t.Errorf("%v", b)
	}
}
