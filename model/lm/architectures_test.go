package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/internal/rng"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testfile"
)

// small returns a configuration of each architecture and of its variants.
func small() map[string]Config {
	base := Config{Vocab: 97, Context: 64, Hidden: 48, Layers: 2, Heads: 6, KVHeads: 2, Dim: 8, Inner: 80,
		NormEps: 1e-5, ScaleAttn: true, Rotary: Rotary{Theta: 1e4}}
	with := func(arch string, change func(c *Config)) Config {
		c := base
		c.Type = arch
		change(&c)
		return c
	}
	neox := func(change func(c *Config)) Config {
		return with("gpt_neox", func(c *Config) {
			c.KVHeads, c.Gelu, c.QKVBias, c.OutBias, c.MLPBias, c.Parallel = 6, "gelu", true, true, true, true
			c.Rotary.Partial = 0.25
			change(c)
		})
	}
	opt := func(change func(c *Config)) Config {
		return with("opt", func(c *Config) {
			c.KVHeads, c.Gelu, c.QKVBias, c.OutBias, c.MLPBias, c.TiedHead = 6, "relu", true, true, true, true
			c.Rotary, c.FirstPosition = Rotary{}, 2
			change(c)
		})
	}
	return map[string]Config{
		"gpt2": {Type: "gpt2", Vocab: 97, Context: 64, Hidden: 48, Layers: 2, Heads: 3, Inner: 80, NormEps: 1e-5,
			Gelu: "gelu_new", TiedHead: true, ScaleAttn: true, EOS: []int32{5}},
		"llama": with("llama", func(c *Config) { c.EOS = []int32{3, 7} }),
		"llama with biases, tied, all heads their own": with("llama", func(c *Config) {
			c.QKVBias, c.OutBias, c.MLPBias, c.TiedHead, c.KVHeads = true, true, true, true, 6
		}),
		"llama3": with("llama", func(c *Config) {
			c.Rotary = Rotary{Theta: 500, Scaling: "llama3", Factor: 8, LowFactor: 1, HighFactor: 4,
				OriginalContext: 16}
		}),
		"llama, linear":     with("llama", func(c *Config) { c.Rotary.Scaling, c.Rotary.Factor = "linear", 2.5 }),
		"llama, wide heads": with("llama", func(c *Config) { c.Dim = 20 }),
		"mistral":           with("mistral", func(c *Config) { c.KVHeads = 1 }),
		"qwen2":             with("qwen2", func(c *Config) { c.QKVBias, c.TiedHead = true, true }),
		"qwen3":             with("qwen3", func(c *Config) { c.Dim, c.TiedHead = 14, true }),
		"smollm3":           with("smollm3", func(c *Config) { c.Layers, c.Unturned = 3, []bool{false, true, false} }),
		"olmo2":             with("olmo2", func(c *Config) {}),
		"phi3":              with("phi3", func(c *Config) { c.Rotary.Partial, c.TiedHead = 0.75, true }),
		"phi3, longrope": with("phi3", func(c *Config) {
			c.Rotary = Rotary{Theta: 1e4, Scaling: "longrope", Factor: 8, OriginalContext: 64, Magnitude: 1.2,
				Short: []float64{1, 2, 3, 4}, Long: []float64{2, 3, 4, 5}}
		}),
		"gemma3": with("gemma3_text", func(c *Config) {
			c.AttnScale, c.TiedHead, c.LocalTheta, c.Local = 0.25, true, 100, []bool{true, false}
		}),
		"gemma2": with("gemma2", func(c *Config) {
			c.AttnScale, c.TiedHead, c.AttnCap, c.LogitsCap = 0.25, true, 1.5, 4
		}),
		"granite": with("granite", func(c *Config) {
			c.EmbedScale, c.AttnScale, c.ResidualScale, c.LogitsScale = 6, 0.2, 0.5, 1.5
		}),
		"gpt_neox": neox(func(c *Config) { c.EOS = []int32{0} }),
		"gpt_neox, one after the other, tied": neox(func(c *Config) {
			c.Parallel, c.QKVBias, c.OutBias, c.TiedHead, c.Rotary.Partial, c.Gelu = false, false, false, true, 0, "gelu_fast"
		}),
		"opt":              opt(func(c *Config) { c.EOS = []int32{2} }),
		"opt, 350M's form": opt(func(c *Config) { c.OPT = OPT{NormAfter: true, Width: 20} }),
		"opt, no biases, weights of norms and norm at the end": opt(func(c *Config) {
			c.OPT, c.Gelu = OPT{NoAffine: true, NoEndNorm: true}, "gelu"
			c.QKVBias, c.OutBias, c.MLPBias, c.TiedHead = false, false, false, false
		}),
	}
}

// every returns small and the configuration of an architecture that does not sample.
func every() map[string]Config {
	list := small()
	list["bert"] = Config{Type: "bert", Vocab: 97, Context: 64, Hidden: 48, Layers: 2, Heads: 3, Inner: 80,
		NormEps: 1e-12, Gelu: "gelu", TiedHead: true, ScaleAttn: true, Types: 2}
	return list
}

func newSmall(t *testing.T, c Config) *Model {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(c.Dim)))
	m, err := New(c, Options{}, func() float64 { return 8 * random.NormFloat64() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

func logitsOf(t *testing.T, m *Model, rows ...[]int32) (out []float32) {
	t.Helper()
	err := tensor.Run(func(s *tensor.Scope) error {
		out = s.Float32s(m.Logits(s, m.Hidden(s, PaddedInput(s, rows, m.Config.Context), nil)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameValues(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i]-want[i])) <= tolerance) {
			t.Fatalf("%s: value %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// What is saved loads to the same configuration and the same logits, and a copy gives them too.
func TestSaveAndCopy(t *testing.T) {
	for name, c := range every() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			row := []int32{1, 96, 4, 50, 50, 3, 2, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
			want := logitsOf(t, m, row)
			dir := t.TempDir()
			if err := m.Save(dir, safetensors.F32); err != nil {
				t.Fatal(err)
			}
			again, err := Load(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Free()
			if fmt.Sprint(again.Config) != fmt.Sprint(m.Config) {
				t.Errorf("loaded %+v, saved %+v", again.Config, m.Config)
			}
			sameValues(t, "loaded", logitsOf(t, again, row), want, 0)
			cp, err := m.Copy(Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer cp.Free()
			sameValues(t, "copied", logitsOf(t, cp, row), want, 0)
		})
	}
}

// Positions that are given count like those that follow from the place.
func TestPositions(t *testing.T) {
	for name, c := range every() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			err := tensor.Run(func(s *tensor.Scope) error {
				ids := s.FromInt64([]int64{5, 6, 7, 8}, 1, 4)
				plain := s.Float32s(m.Hidden(s, Input{IDs: ids}, nil))
				given := s.Float32s(m.Hidden(s, Input{IDs: ids, Positions: s.FromInt64([]int64{0, 1, 2, 3}, 1, 4)},
					nil))
				sameValues(t, "the same positions", given, plain, 1e-5)
				stretched := s.Float32s(m.Hidden(s,
					Input{IDs: ids, Positions: s.FromInt64([]int64{0, 9, 21, 40}, 1, 4)}, nil))
				for i := range plain {
					if math.Abs(float64(plain[i]-stretched[i])) > 1e-3 {
						return nil
					}
				}
				t.Error("other positions change nothing")
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Training moves every parameter and lowers the loss, and what was trained is what a copy holds.
func TestTrainAll(t *testing.T) {
	for name, c := range every() {
		t.Run(name, func(t *testing.T) {
			m := newSmall(t, c)
			before := map[string][]float32{}
			err := tensor.Run(func(s *tensor.Scope) error {
				for _, name := range m.Names() {
					before[name] = s.Float32s(m.Param(name))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			tr := newDescent(t, m)
			rows := []Row{{Tokens: []int32{1, 2, 3, 4, 5, 6}}, {Tokens: []int32{9, 8, 7, 6}}}
			first, last := 0.0, 0.0
			for i := range 8 {
				if last, _, err = tr.step(rows, 2, 1e-3); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = last
				}
			}
			if !(last < first) {
				t.Errorf("loss %g after %g", last, first)
			}
			err = tensor.Run(func(s *tensor.Scope) error {
				for _, name := range m.Names() {
					now := s.Float32s(m.Param(name))
					moved := 0
					for i := range now {
						if now[i] != before[name][i] {
							moved++
						}
					}
					if moved == 0 {
						t.Errorf("%s did not move", name)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			cp, err := m.Copy(Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer cp.Free()
			sameValues(t, "copied", logitsOf(t, cp, rows[0].Tokens), logitsOf(t, m, rows[0].Tokens), 1e-4)
		})
	}
}

// Fields that would change the model are refused by name; what is switched off or says nothing about it is not.
func TestConfigFields(t *testing.T) {
	const plain = `"vocab_size": 64, "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 24, "max_position_embeddings": 4096, "rope_theta": 10000`
	for _, k := range []struct{ config, refused string }{
		{`{"model_type": "llama", ` + plain + `}`, ""},
		{`{"model_type": "llama", ` + plain +
			`, "use_cache": true, "attention_dropout": 0.1, "quantization_config": null, "is_decoder": false}`, ""},
		{`{"model_type": "llama", ` + plain + `, "quantization_config": {"bits": 4}}`, "before quantisation"},
		{`{"model_type": "llama", ` + plain + `, "is_causal": false}`, "is_causal: false"},
		{`{"model_type": "phi3", ` + plain + `, "full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": false,
			"auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}}`, ""},
		{`{"model_type": "llama", ` + plain + `, "pretraining_tp": 2}`, "pretraining_tp"},
		{`{"model_type": "llama", ` + plain + `, "hidden_act": "gelu"}`, "hidden_act"},
		{`{"model_type": "llama", ` + plain + `, "rope_scaling": {"type": "proportional", "factor": 2}}`,
			`rope_type: "proportional"`},
		{`{"model_type": "llama", ` + plain + `, "rope_scaling": {"rope_type": "llama3", "factor": 2}}`,
			"low_freq_factor"},
		{`{"model_type": "llama", ` + plain + `, "rope_scaling": {"rope_type": "linear"}}`, "factor"},
		{`{"model_type": "llama", ` + plain +
			`, "rope_scaling": {"rope_type": "linear", "factor": 2, "attention_factor": 1.5}}`, "attention_factor"},
		{`{"model_type": "llama", ` + plain + `, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}`,
			"partial_rotary_factor"},
		{`{"model_type": "llama", ` + plain + `, "layer_types": ["linear_attention"]}`, "layer_types"},
		{`{"model_type": "llama", ` + plain + `, "head_dim": 7}`, "even"},
		{`{"model_type": "llama", ` + plain + `, "eos_token_id": 64}`, "64"},
		{`{"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "num_attention_heads": 3, "num_key_value_heads": 2, "head_dim": 4, "num_hidden_layers": 1, "intermediate_size": 24}`,
			"no multiple"},
		{`{"model_type": "qwen2", ` + plain +
			`, "use_sliding_window": false, "sliding_window": 32, "max_window_layers": 28}`, ""},
		{`{"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true}`, "scale_attn_by_inverse_layer_idx"},
		{`{"model_type": "gpt2", "reorder_and_upcast_attn": true}`, "reorder_and_upcast_attn"},
		{`{"model_type": "gpt2", "activation_function": "silu"}`, `"silu" is not supported (gelu, gelu_fast, gelu_new`},
		{`{"model_type": "gpt_neox", "rope_theta": 10000, "partial_rotary_factor": 0.25, "hidden_dropout": 0.1}`, ""},
		{`{"model_type": "gpt_neox", "rope_theta": 500}`, "rope_theta: 500"},
		{`{"model_type": "gpt_neox", "partial_rotary_factor": 0.5}`, "partial_rotary_factor: 0.5"},
		{`{"model_type": "gpt_neox", "rotary_pct": 0}`, "rotary_pct: 0"},
		{`{"model_type": "gpt_neox", "rope_parameters": {"partial_rotary_factor": 0}}`, "partial_rotary_factor: 0"},
		{`{"model_type": "gpt_neox", "hidden_act": "relu2"}`, "hidden_act"},
		{`{"model_type": "gpt_neox", "head_dim": 64}`, "head_dim"},
		{`{"model_type": "opt", "dropout": 0.1, "layerdrop": 0.0, "activation_dropout": 0.0, "init_std": 0.02}`, ""},
		{`{"model_type": "opt", "word_embed_proj_dim": 0}`, "word_embed_proj_dim: 0"},
		{`{"model_type": "opt", "activation_function": "silu"}`, "activation_function"},
		{`{"model_type": "opt", "share_layers": true}`, "share_layers"},
		{`{"model_type": "gemma2", "final_logit_softcapping": 0}`, "final_logit_softcapping is 0"},
		{`{"model_type": "gemma3", "text_config": {}}`, "gemma3_text"},
		{`{"model_type": "qwen3_next"}`, "vLLM can serve"},
		{`{"model_type": "unheard_of"}`,
			`model_type "unheard_of" is not supported (supported: bert, gemma2, gemma3_text`},
		{`{"model_type": "gemma3_text", "final_logit_softcapping": 30}`, "final_logit_softcapping"},
		{`{"model_type": "gemma3_text", "hidden_activation": "gelu"}`, "hidden_activation"},
		{`{"model_type": "gemma3_text", "num_hidden_layers": 2, "layer_types": ["full_attention"]}`,
			"layer_types has 1"},
		{`{"model_type": "gemma3_text", "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2}, "full_attention": {}}}`,
			"sliding_attention"},
		{`{"model_type": "smollm3", "num_hidden_layers": 2, "no_rope_layers": [1]}`, "no_rope_layers has 1"},
		{`{"model_type": "phi3", "rope_scaling": {"type": "linear", "factor": 2}}`, `"linear"`},
		{`{"model_type": "phi3", "rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}}`,
			"longrope has 1 and 1 factors"},
		{`{"model_type": "phi3", "partial_rotary_factor": 1.5}`, "partial_rotary_factor"},
		{`{"model_type": "granite", ` + plain + `, "logits_scaling": 0}`, "logits_scaling"},
		{`{"model_type": "qwen3", ` + plain + `, "sliding_window": null, "max_window_layers": 28}`, ""},
		{`{}`, `model_type ""`},
		{`{`, "config.json"},
	} {
		dir := t.TempDir()
		testfile.Write(t, filepath.Join(dir, "config.json"), k.config)
		_, err := readConfig(dir)
		switch {
		case k.refused == "" && err != nil:
			t.Errorf("%s: %v", k.config, err)
		case k.refused != "" && (err == nil || !strings.Contains(err.Error(), k.refused)):
			t.Errorf("%s: %v, want an error that names %s", k.config, err, k.refused)
		}
	}
}

// A window of attention bounds the context, where it is in use.
func TestWindow(t *testing.T) {
	for _, k := range []struct {
		config  string
		context int
	}{
		{`{"model_type": "mistral", "max_position_embeddings": 32768, "sliding_window": 4096}`, 4096},
		{`{"model_type": "mistral", "max_position_embeddings": 32768, "sliding_window": null}`, 32768},
		// Its class in transformers has no such field.
		{`{"model_type": "mistral", "max_position_embeddings": 32768, "sliding_window": 4096, "use_sliding_window": false}`,
			4096},
		{`{"model_type": "qwen2", "max_position_embeddings": 32768, "sliding_window": 4096, "use_sliding_window": true}`,
			4096},
		{`{"model_type": "qwen2", "max_position_embeddings": 32768, "sliding_window": 4096, "use_sliding_window": false}`,
			32768},
		// No layer has the window.
		{`{"model_type": "qwen2", "num_hidden_layers": 24, "max_position_embeddings": 32768, "sliding_window": 4096, ` +
			`"use_sliding_window": true, "max_window_layers": 24}`, 32768},
		{`{"model_type": "qwen3", "num_hidden_layers": 2, "max_position_embeddings": 32768, "sliding_window": 4096, ` +
			`"use_sliding_window": true, "max_window_layers": 0, "layer_types": ["full_attention", "full_attention"]}`, 32768},
		{`{"model_type": "qwen3", "num_hidden_layers": 2, "max_position_embeddings": 32768, "sliding_window": 4096, ` +
			`"use_sliding_window": true, "layer_types": ["full_attention", "sliding_attention"]}`, 4096},
	} {
		dir := t.TempDir()
		testfile.Write(t, filepath.Join(dir, "config.json"), k.config)
		c, err := readConfig(dir)
		if err != nil || c.Context != k.context {
			t.Errorf("%s: context %d, %v, want %d", k.config, c.Context, err, k.context)
		}
	}
}

// TestOwnHead: an output projection in the files counts unless it is a copy of the token embedding, whatever
// tie_word_embeddings says.
func TestOwnHead(t *testing.T) {
	c := Config{Type: "llama", Vocab: 20, Context: 16, Hidden: 8, Layers: 1, Heads: 2, Inner: 12, NormEps: 1e-6,
		TiedHead: true, ScaleAttn: true, Rotary: Rotary{Theta: 1e4}}
	r := rng.New(1, "own head")
	m, err := New(c, Options{}, r.NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	dir := t.TempDir()
	if err := m.Save(dir, safetensors.F32); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	for _, differs := range []bool{false, true} {
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var all []safetensors.Tensor
		for _, name := range f.Names() {
			if x, _ := f.Tensor(name); name != headName {
				all = append(all, x)
			}
		}
		tokens, _ := f.Tensor("model.embed_tokens.weight")
		head, err := tokens.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if head = slices.Clone(head); differs {
			head[3]++
		}
		to := filepath.Join(t.TempDir(), "with-head.safetensors")
		err = safetensors.Write(to, append(all, safetensors.FromFloat32(headName, tokens.Shape, head)), nil)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(to, path); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		shape, err := Inspect(dir)
		if err != nil || loaded.Config.TiedHead == differs || shape.Config.TiedHead == differs || shape.Untied != differs {
			t.Errorf("the head differs: %v; tied: %v, %v (%v)", differs, loaded.Config.TiedHead, shape.Config.TiedHead, err)
		}
		loaded.Free()
	}
}

// The tokens that end a text are from generation_config.json, where it has any.
func TestGenerationConfig(t *testing.T) {
	m := newSmall(t, small()["llama"])
	dir := t.TempDir()
	if err := m.Save(dir, safetensors.BF16); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ file, want string }{
		{`{"eos_token_id": [1, 2]}`, "[1 2]"}, {`{"eos_token_id": 4}`, "[4]"}, {`{}`, "[3 7]"},
		{`{"eos_token_id": 97}`, "error"}, {`[`, "error"},
	} {
		testfile.Write(t, filepath.Join(dir, "generation_config.json"), k.file)
		c, err := readConfig(dir)
		got := fmt.Sprint(c.EOS)
		if err != nil && strings.Contains(err.Error(), "generation_config.json: ") {
			got = "error"
		}
		if got != k.want {
			t.Errorf("%s: %s (%v), want %s", k.file, got, err, k.want)
		}
	}
}

// Scaling leaves fast planes alone, slows the slow ones by the factor, and blends between, without a jump.
func TestRotaryFrequencies(t *testing.T) {
	plain := Rotary{Theta: 5e5}.frequencies(128)
	r := Rotary{Theta: 5e5, Scaling: "llama3", Factor: 8, LowFactor: 1, HighFactor: 4, OriginalContext: 8192}
	scaled := r.frequencies(128)
	halved := Rotary{Theta: 5e5, Scaling: "linear", Factor: 2}.frequencies(128)
	kept, slowed, blended := 0, 0, 0
	for i, f := range plain {
		if want := math.Pow(5e5, -float64(2*i)/128); math.Abs(float64(f)-want) > 1e-6*want {
			t.Errorf("frequency %d is %g, want %g", i, f, want)
		}
		if halved[i] != f/2 {
			t.Errorf("frequency %d halved is %g", i, halved[i])
		}
		ratio := float64(scaled[i] / f)
		switch wave := 2 * math.Pi / float64(f); {
		case wave < 8192/4:
			kept++
			if ratio != 1 {
				t.Errorf("wavelength %g: ratio %g, want 1", wave, ratio)
			}
		case wave > 8192:
			slowed++
			if math.Abs(ratio-1.0/8) > 1e-6 {
				t.Errorf("wavelength %g: ratio %g, want 1/8", wave, ratio)
			}
		default:
			blended++
			if !(ratio > 1.0/8 && ratio < 1) || i > 0 && scaled[i] >= scaled[i-1] {
				t.Errorf("wavelength %g: ratio %g", wave, ratio)
			}
		}
	}
	if kept == 0 || slowed == 0 || blended == 0 {
		t.Errorf("%d planes kept, %d slowed, %d between", kept, slowed, blended)
	}
}

// Whatever is accepted as a configuration is written and read back to the same one.
func FuzzConfig(f *testing.F) {
	for _, c := range small() {
		raw, err := json.Marshal(c.complete().fields())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"model_type": "mistral", "sliding_window": null, "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5}}`))
	f.Add([]byte(`{"model_type": "gpt2", "eos_token_id": [1, 2], "n_inner": null, "n_embd": 12, "n_head": 3}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseConfig(raw)
		if err != nil {
			return
		}
		if c = c.complete(); c.check() != nil {
			return
		}
		written, err := json.Marshal(c.fields())
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseConfig(written)
		if again = again.complete(); err != nil || !reflect.DeepEqual(again, c) && fmt.Sprint(again) != fmt.Sprint(c) {
			t.Errorf("%s became %+v, which is written as %s and read as %+v (%v)", raw, c, written, again, err)
		}
	})
}

// TestYaRN: frequencies as transformers computes them (its formula in numpy's float32), the default of the factor for cosines
// and sines, and the layouts of config.json in which they stand.
func TestYaRN(t *testing.T) {
	for _, k := range []struct {
		fields string
		head   int
		want   []float64 // every eighth of the planes
		scale  float64
	}{
		{`"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
			"rope_parameters": {"rope_type": "default", "rope_theta": 5}`, 16,
			[]float64{1, 0.2371708, 0.05, 0.007905695, 0.0025, 0.0007905695, 0.00025, 7.905695e-05}, 1.1386294361119891},
		{`"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1e6,
			"attention_factor": 1.5}`, 128,
			[]float64{1, 0.1778279, 0.03162278, 0.005375321, 0.0006029411, 4.445699e-05, 7.905694e-06, 1.405853e-06}, 1.5},
		{`"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 100, "truncate": false,
			"mscale": 2, "mscale_all_dim": 1}`, 16,
			[]float64{1, 0.201111, 0.02719377, 0.003952847, 0.00125, 0.0003952847, 0.000125, 3.952847e-05},
			1.4158883083359672 / 1.2079441541679836},
	} {
		c, err := llama.config([]byte(`{"max_position_embeddings": 256, ` + k.fields + `}`))
		if err != nil {
			t.Fatal(err)
		}
		r := c.Rotary
		got := r.frequencies(k.head)
		for i, want := range k.want {
			if f := float64(got[i*max(1, len(got)/8)]); math.Abs(f/want-1) > 1e-5 {
				t.Errorf("%s: frequency %d is %g, want %g", k.fields, i, f, want)
			}
		}
		if math.Abs(r.Magnitude-k.scale) > 1e-12 || c.Context != 256 || r.check(k.head) != nil {
			t.Errorf("%s: %+v, context %d, %v", k.fields, r, c.Context, r.check(k.head))
		}
		theta, scaling := r.fields()
		saved, err := json.Marshal(map[string]any{"max_position_embeddings": 256, "rope_theta": theta, "rope_scaling": scaling})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := llama.config(saved); err != nil || !reflect.DeepEqual(again.Rotary, r) {
			t.Errorf("%s: saved and read again: %+v, want %+v (%v)", k.fields, again.Rotary, r, err)
		}
	}
	for fields, context := range map[string]int{
		`"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [2], "original_max_position_embeddings": 64}`: 64,
		`"rope_scaling": {"type": "dynamic", "factor": 4}`:                                                                      256,
	} {
		if c, err := llama.config([]byte(`{"max_position_embeddings": 256, ` + fields + `}`)); err != nil || c.Context != context {
			t.Errorf("%s: context %d, %v, want %d", fields, c.Context, err, context)
		}
	}
}
