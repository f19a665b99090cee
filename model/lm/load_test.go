package lm

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testfile"
)

// checkpoint is a saved small model whose tensors a test changes before they are written again.
type checkpoint struct {
	t       *testing.T
	dir     string
	tensors map[string]safetensors.Tensor
}

func newCheckpoint(t *testing.T, c Config) (*checkpoint, *Model) {
	t.Helper()
	m := newSmall(t, c)
	k := &checkpoint{t, t.TempDir(), map[string]safetensors.Tensor{}}
	if err := m.Save(k.dir, safetensors.F32); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(filepath.Join(k.dir, safetensors.ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		x.Data = slices.Clone(x.Data)
		k.tensors[name] = x
	}
	return k, m
}

// write replaces the weights by n shards, or by one file where n is 0.
func (k *checkpoint) write(n int) {
	k.t.Helper()
	single := filepath.Join(k.dir, safetensors.ModelFile)
	if n == 0 {
		if err := safetensors.Write(single, slices.Collect(maps.Values(k.tensors)), nil); err != nil {
			k.t.Fatal(err)
		}
		return
	}
	if err := os.Remove(single); err != nil {
		k.t.Fatal(err)
	}
	shards := make([][]safetensors.Tensor, n)
	where := map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(k.tensors)) {
		shards[i%n] = append(shards[i%n], k.tensors[name])
		where[name] = shardName(i % n)
	}
	for i, list := range shards {
		if err := safetensors.Write(filepath.Join(k.dir, shardName(i)), list, nil); err != nil {
			k.t.Fatal(err)
		}
	}
	testfile.WriteJSON(k.t, filepath.Join(k.dir, safetensors.ModelIndex), map[string]any{"weight_map": where})
}

func shardName(i int) string { return "part-" + string(rune('a'+i)) + ".safetensors" }

// Shards, other float types, names without a prefix and buffers of old checkpoints load to the same model.
func TestLoadForms(t *testing.T) {
	row := []int32{1, 2, 3, 50, 96, 4, 7}
	for name, c := range small() {
		t.Run(name, func(t *testing.T) {
			k, m := newCheckpoint(t, c)
			want := logitsOf(t, m, row)
			for _, form := range []struct {
				name      string
				change    func()
				tolerance float64
			}{
				{"shards", func() { k.write(3) }, 0},
				{"no prefix and old buffers", func() {
					prefix, buffer := "model.", "layers.0.self_attn.rotary_emb.inv_freq"
					switch c.Type {
					case "gpt2":
						prefix, buffer = "transformer.", "h.0.attn.bias"
					case "gpt_neox":
						prefix, buffer = "gpt_neox.", "layers.0.attention.masked_bias"
					case "opt":
						buffer = "decoder.version"
					}
					for name, x := range maps.Clone(k.tensors) {
						delete(k.tensors, name)
						x.Name = strings.TrimPrefix(name, prefix)
						k.tensors[x.Name] = x
					}
					k.tensors[buffer] = safetensors.FromFloat32(buffer, []int64{2}, []float32{1, float32(math.Inf(1))})
					k.write(0)
				}, 0},
				{"half precision", func() {
					for name, x := range k.tensors {
						values, err := x.Float32s()
						if err != nil {
							t.Fatal(err)
						}
						k.tensors[name] = safetensors.FromFloat32As(name, x.Shape, values, safetensors.F16)
					}
					k.write(0)
				}, 0.05},
			} {
				form.change()
				got, err := Load(k.dir, Options{})
				if err != nil {
					t.Fatalf("%s: %v", form.name, err)
				}
				sameValues(t, form.name, logitsOf(t, got, row), want, form.tolerance)
				got.Free()
			}
		})
	}
}

// Every kind of damage gives an error that names what is wrong, and no model.
func TestLoadRefuses(t *testing.T) {
	live := tensor.Live()
	t.Cleanup(func() {
		if now := tensor.Live(); now != live {
			t.Errorf("%d tensors were left behind", now-live)
		}
	})
	const mlp = "model.layers.1.mlp.down_proj.weight"
	truncate := func(k *checkpoint, name string, keep int64) {
		if err := os.Truncate(filepath.Join(k.dir, name), keep); err != nil {
			k.t.Fatal(err)
		}
	}
	for _, k := range []struct {
		name  string
		spoil func(k *checkpoint)
		want  []string
	}{
		{"no weights", func(k *checkpoint) { os.Remove(filepath.Join(k.dir, safetensors.ModelFile)) },
			[]string{safetensors.ModelFile}},
		{"no config", func(k *checkpoint) { os.Remove(filepath.Join(k.dir, "config.json")) }, []string{"config.json"}},
		{"shard missing", func(k *checkpoint) { k.write(3); os.Remove(filepath.Join(k.dir, shardName(1))) },
			[]string{shardName(1), "missing"}},
		{"shard cut short", func(k *checkpoint) { k.write(3); truncate(k, shardName(2), 4000) },
			[]string{shardName(2)}},
		{"shard empty", func(k *checkpoint) { k.write(2); truncate(k, shardName(0), 0) }, []string{shardName(0)}},
		{"index that is no JSON", func(k *checkpoint) {
			k.write(2)
			truncate(k, safetensors.ModelIndex, 10)
		}, []string{safetensors.ModelIndex}},
		{"tensor in another shard than the index says", func(k *checkpoint) {
			k.write(2)
			list := slices.Collect(maps.Values(k.tensors))
			if err := safetensors.Write(filepath.Join(k.dir, shardName(0)), list[:1], nil); err != nil {
				k.t.Fatal(err)
			}
		}, []string{shardName(0)}},
		{"header that is garbage", func(k *checkpoint) {
			if err := os.WriteFile(filepath.Join(k.dir, safetensors.ModelFile), []byte("garbage that is long enough"),
				0o644); err != nil {
				k.t.Fatal(err)
			}
		}, []string{safetensors.ModelFile}},
		{"tensor missing", func(k *checkpoint) { delete(k.tensors, mlp); k.write(0) }, []string{mlp, "missing"}},
		{"tensor missing from the shards", func(k *checkpoint) { delete(k.tensors, mlp); k.write(2) },
			[]string{mlp, "missing"}},
		{"tensor too many", func(k *checkpoint) {
			k.tensors["model.layers.2.x"] = safetensors.FromFloat32("model.layers.2.x", []int64{1}, []float32{1})
			k.write(0)
		}, []string{"model.layers.2.x"}},
		{"other shape", func(k *checkpoint) {
			x := k.tensors[mlp]
			x.Shape = []int64{x.Shape[1], x.Shape[0]}
			k.tensors[mlp] = x
			k.write(0)
		}, []string{mlp, "[80 48]", "[48 80]"}},
		{"NaN", func(k *checkpoint) {
			copy(k.tensors[mlp].Data[400:], []byte{0, 0, 0xc0, 0x7f})
			k.write(0)
		}, []string{mlp, "NaN"}},
		{"integers", func(k *checkpoint) {
			x := k.tensors[mlp]
			x.DType = safetensors.I32
			k.tensors[mlp] = x
			k.write(0)
		}, []string{mlp, "I32"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c, _ := newCheckpoint(t, small()["llama"])
			k.spoil(c)
			m, err := Load(c.dir, Options{})
			if err == nil {
				m.Free()
				t.Fatal("loaded")
			}
			for _, want := range k.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestVocabulary(t *testing.T) {
	m := newSmall(t, small()["llama"])
	if err := m.CheckVocabulary(97); err != nil {
		t.Error(err)
	}
	if err := m.CheckVocabulary(98); err == nil || !strings.Contains(err.Error(), "97") {
		t.Errorf("a tokenizer with more ids than the model: %v", err)
	}
	if _, err := m.Generate(t.Context(), [][]int32{{1, 97}}, 1, SampleOptions{}); err == nil ||
		!strings.Contains(err.Error(), "token 97") {
		t.Errorf("an id outside the vocabulary: %v", err)
	}
	long := make([]int32, m.Config.Context)
	if _, err := m.Generate(t.Context(), [][]int32{{1}, long}, 1, SampleOptions{MaxNewTokens: 1}); err == nil ||
		!strings.Contains(err.Error(), "prompt 1") {
		t.Errorf("a prompt that leaves no room: %v", err)
	}
}

// A model whose logits are not finite gives an error and no samples.
func TestNotFiniteLogits(t *testing.T) {
	for name, c := range small() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			// One infinite row of the output projection makes some logits infinite, or NaN where the state is zero.
			head := m.head.weight.Host()
			for i := range c.Hidden {
				head[7*c.Hidden+i] = float32(math.Inf(1 - 2*(i%2)))
			}
			m.head.weight.Store(head)
			for _, temperature := range []float64{0, 1} {
				out, err := m.Generate(t.Context(), [][]int32{{1, 2, 3}, {4}}, 2,
					SampleOptions{Temperature: temperature, MaxNewTokens: 4, IgnoreEOS: true})
				if err == nil || out != nil || !strings.Contains(err.Error(), "not finite") {
					t.Errorf("temperature %g: %v, %v", temperature, out, err)
				}
			}
			if _, err := m.Trainable(); err != nil {
				t.Fatal(err)
			}
			err := tensor.Run(func(s *tensor.Scope) error {
				_, err := m.EvaluateRows(s, []Row{{Tokens: []int32{1, 2, 3}}}, nil, 64, nil)
				return err
			})
			if err == nil {
				t.Error("evaluated")
			}
		})
	}
}

// BenchmarkLoad loads the folder that $POPRI_MODEL names, or a LLaMA of 46 million parameters, and reads its weights as
// they are on disk beside it.
func BenchmarkLoad(b *testing.B) {
	dir := os.Getenv("POPRI_MODEL")
	if dir == "" {
		dir = b.TempDir()
		m, err := New(Config{Type: "llama", Vocab: 8192, Context: 512, Hidden: 512, Layers: 12, Heads: 8, KVHeads: 4,
			Inner: 1536, NormEps: 1e-5, ScaleAttn: true, Rotary: Rotary{Theta: 1e4}},
			Options{}, func() float64 { return 1 })
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Save(dir, safetensors.F32); err != nil {
			b.Fatal(err)
		}
		m.Free()
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(files) == 0 {
		b.Fatalf("%s holds no weights: %v", dir, err)
	}
	size := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		size += info.Size()
	}
	b.Run("load", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			m, err := Load(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			m.Free()
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			for _, file := range files {
				if _, err := os.ReadFile(file); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// TestCheck: what is wrong with a folder is reported together, the unknown fields before the values.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	config := `{"model_type": "llama", "foo": 3, "bar": true, "hidden_act": "gelu", "rope_scaling": {"type": "ntk"}}`
	testfile.Write(t, filepath.Join(dir, configFile), config)
	_, err := Load(dir, Options{})
	for _, want := range []string{"bar: true, foo: 3 are not supported", "hidden_act", `"ntk"`, "neither model.safetensors"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}
