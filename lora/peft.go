package lora

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"popri/internal/atomicfile"
	"popri/internal/exactjson"
	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/lm"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// ConfigFile is the file of an adapter's folder that is written last: a folder that has it is whole.
const ConfigFile = "adapter_config.json"

const (
	weightsFile = "adapter_model.safetensors"
	namePrefix  = "base_model.model."
	// What follows the projection in the names of its tensors.
	endA, endB, endM = ".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"
)

// peftConfig has the fields of adapter_config.json that are represented here, and those that must be off.
type peftConfig struct {
	Type         string          `json:"peft_type"`
	Task         string          `json:"task_type"`
	Base         string          `json:"base_model_name_or_path"`
	Rank         int             `json:"r"`
	Alpha        float64         `json:"lora_alpha"`
	Dropout      float64         `json:"lora_dropout"`
	RSLoRA       bool            `json:"use_rslora"`
	DoRA         bool            `json:"use_dora,omitempty"`
	FanInFanOut  bool            `json:"fan_in_fan_out"`
	Bias         string          `json:"bias"`
	Targets      json.RawMessage `json:"target_modules"`
	RankPattern  Patterns        `json:"rank_pattern"`
	AlphaPattern Patterns        `json:"alpha_pattern"`
	Inference    bool            `json:"inference_mode"`
	Init         any             `json:"init_lora_weights"`
}

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
	raw, err := os.ReadFile(path)
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
	left := map[string]bool{}
	for _, name := range f.Names() {
		left[name] = true
	}
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
					return tensor.Tensor{},
						fmt.Errorf("lora: %s: tensor %s has shape %v, the model and rank %d make it %v", file,
							key, t.Shape, p.Rank, shape)
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
			return Config{}, quote.Errorf("target_modules: %q is not a regular expression: %w", one, err)
		}
		c.Targets = []string{one}
	} else if err := json.Unmarshal(f.Targets, &c.Targets); err != nil || len(c.Targets) == 0 {
		return Config{}, fmt.Errorf("target_modules: %s is neither a list of names nor a regular expression", f.Targets)
	}
	return c, nil
}

// Save writes the adapter in PEFT's format: adapter_model.safetensors in float32 and adapter_config.json.
func (a *Adapter) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	var tensors []safetensors.Tensor
	fan := false
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range a.Names() {
			p := a.Modules[name]
			fan = fan || p.linear.InOut
			for i, x := range p.tensors() {
				tensors = append(tensors,
					safetensors.FromFloat32(namePrefix+name+[]string{endA, endB, endM}[i], x.Shape(), s.Float32s(x)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := safetensors.Write(filepath.Join(dir, weightsFile), tensors,
		map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	var targets any = a.Config.Targets
	if a.Config.targets != nil {
		targets = a.Config.Targets[0]
	} else if len(a.Config.Targets) == 0 {
		targets = a.Names()
	}
	rawTargets, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(peftConfig{Type: "LORA", Task: "CAUSAL_LM", Base: a.Config.Base,
		Rank: a.Config.Rank, Alpha: a.Config.Alpha,
		RSLoRA: a.Config.RSLoRA, DoRA: a.Config.DoRA, FanInFanOut: fan, Bias: "none", Targets: rawTargets,
		RankPattern:  a.Config.RankPattern,
		AlphaPattern: a.Config.AlphaPattern, Inference: true, Init: true}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, ConfigFile), append(b, '\n'))
}
