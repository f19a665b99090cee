package lora

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
	"popri/testkit/testfile"
	"popri/testkit/testmodel"
)

// Models and adapters of every kind, small.
func kinds() (models map[string]lm.Config, adapters map[string]Config) {
	gated := lm.Config{Vocab: 97, Context: 64, Hidden: 48, Layers: 2, Heads: 6, KVHeads: 2, Inner: 80, NormEps: 1e-5,
		ScaleAttn: true, Rotary: lm.Rotary{Theta: 1e4}}
	of := func(arch string, change func(c *lm.Config)) lm.Config {
		c := gated
		c.Type = arch
		change(&c)
		return c
	}
	models = map[string]lm.Config{
		"gpt2": {Type: "gpt2", Vocab: 97, Context: 64, Hidden: 48, Layers: 2, Heads: 3, Inner: 80, NormEps: 1e-5,
			Gelu: "gelu_new", TiedHead: true, ScaleAttn: true},
		"llama": of("llama", func(c *lm.Config) {
			c.Rotary = lm.Rotary{Theta: 500, Scaling: "llama3", Factor: 8, LowFactor: 1, HighFactor: 4,
				OriginalContext: 16}
		}),
		"linear": of("llama", func(c *lm.Config) {
			c.Dim, c.QKVBias, c.OutBias, c.MLPBias, c.Rotary.Scaling, c.Rotary.Factor = 12, true, true, true, "linear",
				2
		}),
		"mistral": of("mistral", func(c *lm.Config) { c.KVHeads = 1 }),
		"qwen2":   of("qwen2", func(c *lm.Config) { c.QKVBias, c.TiedHead = true, true }),
		"qwen3":   of("qwen3", func(c *lm.Config) { c.Dim, c.TiedHead = 14, true }),
		"smollm3": of("smollm3", func(c *lm.Config) { c.Unturned = []bool{true, false} }),
		"olmo2":   of("olmo2", func(c *lm.Config) {}),
		"phi3":    of("phi3", func(c *lm.Config) { c.Rotary.Partial = 0.5 }),
		"gemma3": of("gemma3_text", func(c *lm.Config) {
			c.AttnScale, c.TiedHead, c.LocalTheta, c.Local = 0.25, true, 100, []bool{true, false}
		}),
		"gemma2": of("gemma2", func(c *lm.Config) {
			c.AttnScale, c.TiedHead, c.AttnCap, c.LogitsCap = 0.25, true, 1.5, 4
		}),
		"granite": of("granite", func(c *lm.Config) {
			c.EmbedScale, c.AttnScale, c.ResidualScale, c.LogitsScale = 6, 0.2, 0.5, 1.5
		}),
		"gpt_neox": of("gpt_neox", func(c *lm.Config) {
			c.KVHeads, c.Gelu, c.QKVBias, c.OutBias, c.Parallel, c.Rotary.Partial = 6, "gelu", true, true, true, 0.25
		}),
		"opt": of("opt", func(c *lm.Config) {
			c.KVHeads, c.Gelu, c.FirstPosition, c.Rotary = 6, "relu", 2, lm.Rotary{}
			c.QKVBias, c.OutBias, c.MLPBias, c.TiedHead, c.OPT = true, true, true, true, lm.OPT{NormAfter: true, Width: 20}
		}),
	}
	adapters = map[string]Config{
		"all":    {Rank: 4, Alpha: 8},
		"rslora": {Rank: 4, Alpha: 8, RSLoRA: true},
		// The keys overlap, and the first one counts although it is not the first in the alphabet.
		"patterns": {Rank: 4, Alpha: 8, RankPattern: Patterns{{"1.mlp.(c_proj|down_proj)", 6}, {"(c|down)_proj", 2}},
			AlphaPattern: Patterns{{`.*\.0\..*`, 3}, {".*mlp.*", 5}, {"(q_proj|c_attn)", 1}}},
	}
	return models, adapters
}

// filled is an adapter whose B is not zero.
func filled(t *testing.T, m *lm.Model, c Config) *Adapter {
	t.Helper()
	random := rand.New(rand.NewPCG(3, uint64(c.Rank)))
	a, err := New(m, c, random)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	for _, name := range a.Names() {
		p := a.Modules[name]
		b := p.B.Host()
		for i := range b {
			b[i] = float32(0.3 * random.NormFloat64())
		}
		p.B.Store(b)
	}
	return a
}

// load is the adapter in a folder.
func load(t *testing.T, dir string, m *lm.Model) *Adapter {
	t.Helper()
	a, err := Load(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	return a
}

// merge is the model with the adapter merged into it.
func merge(t *testing.T, a *Adapter, m *lm.Model) *lm.Model {
	t.Helper()
	merged, err := a.Merge(m, lm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(merged.Free)
	return merged
}

// An adapter that is exported and imported again, and one that is merged, give the logits of the adapter itself.
// $POPRI_PEFT_OUT keeps the folders for scripts/check_peft.py, which has the real peft do the same.
func TestExport(t *testing.T) {
	root := os.Getenv("POPRI_PEFT_OUT")
	if root == "" {
		root = t.TempDir()
	}
	models, adapters := kinds()
	for _, arch := range slices.Sorted(maps.Keys(models)) {
		random := rand.New(rand.NewPCG(1, 2))
		m, err := lm.New(models[arch], lm.Options{}, func() float64 { return 8 * random.NormFloat64() })
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		if err := m.Save(filepath.Join(root, arch, "model"), safetensors.F32); err != nil {
			t.Fatal(err)
		}
		for _, kind := range slices.Sorted(maps.Keys(adapters)) {
			t.Run(arch+"/"+kind, func(t *testing.T) {
				a := filled(t, m, adapters[kind])
				dir := filepath.Join(root, arch, kind)
				if err := a.Save(dir); err != nil {
					t.Fatal(err)
				}
				again := load(t, dir, m)
				for name, p := range a.Modules {
					if q := again.Modules[name]; q == nil || q.Rank != p.Rank || q.Alpha != p.Alpha ||
						q.Scale != p.Scale {
						t.Errorf("%s: saved %+v, loaded %+v", name, p, q)
					}
				}
				merged := merge(t, a, m)
				err = tensor.Run(func(s *tensor.Scope) error {
					ids := make([]int64, 2*24)
					for i := range ids {
						ids[i] = int64(random.IntN(97))
					}
					in := lm.Input{IDs: s.FromInt64(ids, 2, 24)}
					logits := func(m *lm.Model, a lm.Adapter) tensor.Tensor { return m.Logits(s, m.Hidden(s, in, a)) }
					plain, on := logits(m, nil), logits(m, a)
					if d := distance(s, plain, on, nil, 1); !(d > 0.01) {
						t.Errorf("the adapter changes the logits by %g", d)
					}
					if d := distance(s, logits(m, again), on, nil, 1); d != 0 {
						t.Errorf("the imported adapter differs by %g", d)
					}
					if d := distance(s, logits(merged, nil), on, nil, 1); !(d <= 1e-3) {
						t.Errorf("the merged model differs by %g", d)
					}
					return safetensors.Write(filepath.Join(dir, "logits.safetensors"), []safetensors.Tensor{
						safetensors.FromInt64("ids", []int64{2, 24}, ids),
						safetensors.FromFloat32("off", plain.Shape(), s.Float32s(plain)),
						safetensors.FromFloat32("on", on.Shape(), s.Float32s(on))}, nil)
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// Patterns are tried in their order, as PEFT does, and count for the end of a name after a dot.
// An adapter takes the values of a stored one of the same shape, in the same tensors, and refuses any other.
func TestRead(t *testing.T) {
	models, _ := kinds()
	m, err := lm.New(models["llama"], lm.Options{Weights: tensor.Float32, Compute: tensor.Float32},
		rand.New(rand.NewPCG(1, 1)).NormFloat64)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	c := Config{Rank: 4, Alpha: 8}
	dir := t.TempDir()
	want := filled(t, m, c)
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := New(m, c, rand.New(rand.NewPCG(9, 9)))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Free()
	params, err := got.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Read(dir, m); err != nil {
		t.Fatal(err)
	}
	stored, err := want.Trainable()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range params {
		if !slices.Equal(p.Host(), stored[i].Host()) {
			t.Errorf("tensor %d is not what was read", i)
		}
	}
	for _, other := range []Config{{Rank: 2, Alpha: 8}, {Rank: 4, Alpha: 9},
		{Rank: 4, Alpha: 8, Targets: []string{"q_proj"}}} {
		a, err := New(m, other, rand.New(rand.NewPCG(9, 9)))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Read(dir, m); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%+v reads an adapter of %+v: %v", other, c, err)
		}
		a.Free()
	}
}

func TestPatterns(t *testing.T) {
	var c Config
	c.Rank, c.Alpha = 4, 8
	if err := c.RankPattern.UnmarshalJSON([]byte(`{"q_proj": 2, "layers.1.self_attn.q_proj": 3, "v": 5}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"model.layers.1.self_attn.q_proj": 2, "q_proj": 2, "model.xq_proj": 4,
		"a.v": 5, "a.v.b": 4} {
		if got := lookup(c.ranks, name, 4); got != want {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
	if b, err := c.RankPattern.MarshalJSON(); err != nil ||
		string(b) != `{"q_proj":2,"layers.1.self_attn.q_proj":3,"v":5}` {
		t.Errorf("%s, %v", b, err)
	}
}

// TestAllLinear: in a list, PEFT takes "all-linear" for the name of a module, so an adapter's folder has the names.
func TestAllLinear(t *testing.T) {
	m, _ := kinds()
	model, err := lm.New(m["llama"], lm.Options{}, func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer model.Free()
	a, err := New(model, Config{Rank: 1, Alpha: 1, Targets: []string{AllLinear}}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	if saved := string(testfile.Read(t, filepath.Join(dir, ConfigFile))); strings.Contains(saved, AllLinear) ||
		!strings.Contains(saved, `"model.layers.0.self_attn.q_proj"`) {
		t.Errorf("adapter_config.json is %s", saved)
	}
}

// What changes the arithmetic and is not represented is refused by name.
func TestRefusedSettings(t *testing.T) {
	const plain = `"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]`
	for setting, refused := range map[string]bool{
		`"use_dora": true`: false, `"use_bdlora": true`: true, `"modules_to_save": ["lm_head"]`: true,
		`"modules_to_save": null`: false, `"bias": "all"`: true, `"bias": "none"`: false,
		`"lora_bias": true`: true, `"layers_to_transform": [0]`: true, `"trainable_token_indices": [1]`: true,
		`"init_lora_weights": "pissa"`: true, `"init_lora_weights": "gaussian"`: false,
		`"init_lora_weights": true`: false, `"some_new_setting": 1`: true, `"some_new_setting": null`: false,
		`"peft_version": "0.21.2"`: false, `"lora_dropout": 0.1`: false,
		`"rank_pattern": {"(": 2}`: true, `"rank_pattern": {"q": 1.5}`: true, `"rank_pattern": [1]`: true,
		`"alpha_pattern": {"q": 0}`: true, `"rank_pattern": {}`: false,
	} {
		_, err := parseConfig([]byte(fmt.Sprintf("{%s, %s}", plain, setting)))
		name, _, _ := strings.Cut(strings.Trim(setting, `"`), `"`)
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), name) &&
			!strings.Contains(err.Error(), "patterns")):
			t.Errorf("%s: %v", setting, err)
		case !refused && err != nil:
			t.Errorf("%s: %v", setting, err)
		}
	}
	ahead := `{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": "^(?!.*head).*proj$"}`
	if _, err := parseConfig([]byte(ahead)); err == nil || !strings.Contains(err.Error(), "list the names") {
		t.Errorf("a lookahead: %v", err)
	}
	m, _ := kinds()
	model, err := lm.New(m["llama"], lm.Options{}, func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer model.Free()
	for _, c := range []Config{{Alpha: 1}, {Rank: 1}, {Rank: 1, Alpha: math.Inf(1)}, {Rank: 1, Alpha: 1, DoRA: true},
		{Rank: 1, Alpha: 1, Targets: []string{"c_attn"}}} {
		if a, err := New(model, c, rand.New(rand.NewPCG(1, 1))); err == nil {
			a.Free()
			t.Errorf("%+v was accepted", c)
		}
	}
}

// Whatever is accepted keeps its patterns in their order when it is written.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "rank_pattern": {"q": 2, "b": 3}, "alpha_pattern": {}}`))
	f.Add([]byte(`{"peft_type": "LORA", "r": 1, "lora_alpha": 1e3, "target_modules": ".*_proj", "use_rslora": true}`))
	f.Add([]byte(`{"peft_type": "LORA", "r": 0, "bias": "all", "target_modules": "all-linear", "rank_pattern": null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseConfig(raw)
		if err != nil {
			return
		}
		for _, p := range []Patterns{c.RankPattern, c.AlphaPattern} {
			written, err := p.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			var again Patterns
			if err := again.UnmarshalJSON(written); err != nil || !slices.Equal(again, p) {
				t.Errorf("%v is written as %s and read as %v (%v)", p, written, again, err)
			}
		}
	})
}

// TestMergeInPlace: the model computes as the merged copy of the same type does, bit for bit, and afterwards is as
// before.
func TestMergeInPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	models, adapters := kinds()
	for _, arch := range slices.Sorted(maps.Keys(models)) {
		for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			made, err := lm.New(models[arch], lm.Options{}, random.NormFloat64)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			err = made.Save(dir, safetensors.F32)
			made.Free()
			if err != nil {
				t.Fatal(err)
			}
			m := testmodel.Load(t, dir, lm.Options{Weights: d})
			t.Cleanup(m.Free)
			a := filled(t, m, adapters["patterns"])
			merged, err := a.Merge(m, lm.Options{Weights: d})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(merged.Free)
			weights := func(m *lm.Model) (all [][]float32) {
				err := tensor.Run(func(s *tensor.Scope) error {
					for _, name := range m.Names() {
						all = append(all, s.Float32s(s.To(m.Param(name), tensor.Float32)))
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			same := func(a, b [][]float32) bool { return slices.EqualFunc(a, b, slices.Equal[[]float32]) }
			before := weights(m)
			if err := m.Pack(); err != nil { // what sampling leaves must not stay
				t.Fatal(err)
			}
			undo, err := a.MergeInPlace(m)
			if err != nil {
				t.Fatal(err)
			}
			if !same(weights(m), weights(merged)) || same(weights(m), before) {
				t.Errorf("%s %v: the weights in place are not those of the merged copy", arch, d)
			}
			if err := undo(); err != nil {
				t.Fatal(err)
			}
			if !same(weights(m), before) {
				t.Errorf("%s %v: the weights are not as before", arch, d)
			}
			if undo, err = a.mergeInPlace(m, true); err != nil || !same(weights(m), weights(merged)) {
				t.Errorf("%s %v: with copies, the weights in place are not those of the merged copy (%v)", arch, d, err)
			}
			if err := undo(); err != nil || !same(weights(m), before) {
				t.Errorf("%s %v: with copies, the weights are not as before (%v)", arch, d, err)
			}
			if undo, err = a.MergeInPlace(m); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, "model.safetensors"), time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			if err := undo(); err == nil || !strings.Contains(err.Error(), "changed since") {
				t.Errorf("another file is read in place of the model's: %v", err)
			}
			if undo, err := a.MergeInPlace(merged); err != nil || undo() == nil {
				t.Errorf("a model that was not loaded is read again (%v)", err)
			}
		}
	}
}
