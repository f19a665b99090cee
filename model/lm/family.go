package lm

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

// configFile describes the model of a folder.
const configFile = "config.json"

// Family returns the model_type that the content of a config.json states.
func Family(config []byte) (string, error) {
	var head struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(exactjson.TrimBOM(config), &head); err != nil {
		return "", quote.JSON(err)
	}
	return head.Type, nil
}

// mixed are families with layers that carry a state instead of attending (state-space, gated-delta or linear layers),
// by the beginning of model_type.
var mixed = []string{"bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2", "mamba",
	"minimax", "nemotron_h", "olmo_hybrid", "plamo2", "qwen3_5", "qwen3_next", "recurrent_gemma", "rwkv", "zamba"}

// Unsupported says that a family is not supported, what is, and why where it is known.
func Unsupported(name, supported string) error {
	why := ""
	switch {
	case slices.ContainsFunc(mixed, func(m string) bool { return strings.HasPrefix(name, m) }):
		why = "; it has layers with a state, which popri does not compute and vLLM can serve"
	case name == "gemma3":
		why = "; it is the model of text and pictures, and the models of text are gemma3_text"
	}
	err := quote.Errorf("model_type %q is not supported", name)
	return fmt.Errorf("%w (%s)%s", err, supported, why)
}

// Families are the values of model_type that a small model may have.
func Families() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(architectures)),
		func(name string) bool { return architectures[name].masked })
}

// Generators are the families of models that write text.
func Generators() []string {
	return slices.DeleteFunc(Families(), func(name string) bool { return name == "bert" })
}

// CheckGenerator refuses the model in dir if it is of no family that writes text. Other mistakes in the folder are for
// [Load] to find.
func CheckGenerator(dir string) error {
	path := filepath.Join(dir, configFile)
	raw, err := fault.ReadFile(path)
	if err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	name, err := Family(raw)
	if err == nil && !slices.Contains(Generators(), name) {
		err = fmt.Errorf("a generator: %w", Unsupported(name, "supported: "+strings.Join(Generators(), ", ")))
	}
	if err != nil {
		return fmt.Errorf("lm: %s: %w", path, err)
	}
	return nil
}
