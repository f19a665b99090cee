package lora

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/hfconfig"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// Settings of PEFT without an effect on a trained adapter's computation. Any other that is not represented here is
// refused unless it is off.
var harmlessSettings = []string{"auto_mapping", "revision", "peft_version", "megatron_config", "megatron_core",
	"layers_pattern", "qalora_group_size",
	"eva_config", "ensure_weight_tying", "runtime_config"}

// Ways to initialise an adapter that leave the model's weights unchanged. Others (pissa, olora, corda, loftq, …)
// subtract the first adapter from the weights, so that the adapter belongs to other weights.
var plainInits = []any{nil, true, false, "gaussian", "eva", "orthogonal"}

// Load reads an adapter for m from a folder in PEFT's format. Settings that cannot be represented are refused by name.
func Load(dir string, m *lm.Model) (*Adapter, error) {
	path := filepath.Join(dir, ConfigFile)
	raw, err := fault.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	c, err := parseConfig(exactjson.TrimBOM(raw))
	if err != nil {
		return nil, fmt.Errorf("lora: %s: %w", path, err)
	}
	names, err := c.match(m)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	file := filepath.Join(dir, weightsFile)
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	defer f.Close()
	left := numeric.Set(f.Names())
	a := &Adapter{Config: c, Modules: map[string]*Pair{}}
	err = tensor.Run(func(s *tensor.Scope) error {
		for _, name := range names {
			l := m.Linears()[name]
			p := c.pair(name, l)
			take := func(kind string, shape ...int64) (tensor.Tensor, error) {
				key := namePrefix + name + kind
				t, ok := f.Tensor(key)
				if !ok {
					return tensor.Tensor{}, fmt.Errorf("lora: %s: tensor %s is missing", file, key)
				}
				if !slices.Equal(t.Shape, shape) {
					return tensor.Tensor{}, fmt.Errorf("lora: %s: tensor %s has shape %v, the model and rank %d make "+
						"it %v", file, key, t.Shape, p.Rank, shape)
				}
				if err := t.CheckFinite(); err != nil {
					return tensor.Tensor{}, fmt.Errorf("lora: %s: %w", file, err)
				}
				data, err := t.Float32s()
				if err != nil {
					return tensor.Tensor{}, fmt.Errorf("lora: %s: %w", file, err)
				}
				delete(left, key)
				return s.Keep(s.FromFloat32(data, shape...)), nil
			}
			a.Modules[name] = p
			var err error
			if p.A, err = take(endA, int64(p.Rank), l.In); err != nil {
				return err
			}
			if p.B, err = take(endB, l.Out, int64(p.Rank)); err != nil {
				return err
			}
			if c.DoRA {
				if p.M, err = take(endM, l.Out); err != nil {
					return err
				}
			}
		}
		for name := range left {
			return fmt.Errorf("lora: %s: tensor %s belongs to no targeted projection", file, name)
		}
		return nil
	})
	if err != nil {
		a.Free()
		return nil, err
	}
	return a, nil
}

func parseConfig(raw []byte) (Config, error) {
	var f peftConfig
	if err := json.Unmarshal(raw, &f); err != nil {
		return Config{}, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return Config{}, err
	}
	if f.Type != "LORA" {
		return Config{}, quote.Errorf("peft_type %q is not supported (LORA)", f.Type)
	}
	known := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(f)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if v := all[name]; !known[name] && !slices.Contains(harmlessSettings, name) && !hfconfig.Off(v) {
			return Config{}, fmt.Errorf("%s: %s cannot be represented", quote.Raw(name), quote.Raw(v))
		}
	}
	if !slices.Contains(plainInits, f.Init) {
		return Config{}, fmt.Errorf("init_lora_weights: %s cannot be represented", quote.Raw(fmt.Sprint(f.Init)))
	}
	if f.Bias != "" && f.Bias != "none" {
		return Config{}, quote.Errorf("bias: %q cannot be represented", f.Bias)
	}
	c := Config{Rank: f.Rank, Alpha: f.Alpha, RSLoRA: f.RSLoRA, DoRA: f.DoRA,
		RankPattern: f.RankPattern, AlphaPattern: f.AlphaPattern, Base: f.Base}
	if err := c.check(); err != nil {
		return Config{}, err
	}
	var one string
	if json.Unmarshal(f.Targets, &one) == nil && one != "" {
		if one == "all-linear" {
			return c, nil
		}
		var err error
		if c.targets, err = regexp.Compile(`^(?:` + one + `)$`); err != nil {
			if strings.Contains(one, "(?=") || strings.Contains(one, "(?!") || strings.Contains(one, "(?<") {
				return Config{}, quote.Errorf("target_modules: %q looks ahead or behind, which popri's regular expressions cannot: "+
					"list the names of the modules instead", one)
			}
			return Config{}, quote.Errorf("target_modules: %q is not a regular expression: %w", one, err)
		}
		c.Targets = []string{one}
	} else if err := json.Unmarshal(f.Targets, &c.Targets); err != nil || len(c.Targets) == 0 {
		return Config{}, fmt.Errorf("target_modules: %s is neither a list of names nor a regular expression", f.Targets)
	}
	return c, nil
}
