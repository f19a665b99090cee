package lora

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"popri/internal/atomicfile"
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
	if err := safetensors.Write(filepath.Join(dir, weightsFile), tensors, map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	var targets any = a.Config.Targets
	if a.Config.targets != nil {
		targets = a.Config.Targets[0]
	} else if len(a.Config.Targets) == 0 || slices.Contains(a.Config.Targets, AllLinear) { // in a list, PEFT takes it for a name
		targets = a.Names()
	}
	rawTargets, err := json.Marshal(targets)
	if err != nil {
		return err
	}
	return atomicfile.WriteJSON(filepath.Join(dir, ConfigFile), peftConfig{Type: "LORA", Task: "CAUSAL_LM",
		Base: a.Config.Base, Rank: a.Config.Rank, Alpha: a.Config.Alpha, RSLoRA: a.Config.RSLoRA, DoRA: a.Config.DoRA,
		FanInFanOut: fan, Bias: "none", Targets: rawTargets, RankPattern: a.Config.RankPattern,
		AlphaPattern: a.Config.AlphaPattern, Inference: true, Init: true})
}
