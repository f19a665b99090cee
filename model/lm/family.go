package lm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/bom"
	"popri/internal/quote"
)

// configFile describes the model of a folder.
const configFile = "config.json"

// Family returns the model_type that the content of a config.json states.
func Family(config []byte) (string, error) {
	var head struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(bom.Trim(config), &head); err != nil {
		return "", quote.JSON(err)
	}
	return head.Type, nil
}

// Families are the values of model_type that a small model may have.
func Families() []string { return slices.Sorted(maps.Keys(architectures)) }

// Generators are those of models that write text.
func Generators() []string {
	return slices.DeleteFunc(Families(), func(name string) bool { return name == "bert" })
}

// CheckGenerator refuses the model in dir if it is of no family that writes text. Other mistakes in the folder are for [Load]
// to find.
func CheckGenerator(dir string) error {
	path := filepath.Join(dir, configFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	name, err := Family(raw)
	if err == nil && !slices.Contains(Generators(), name) {
		err = quote.Errorf("model_type %q is not supported for a generator (supported: %s)", name,
			strings.Join(Generators(), ", "))
	}
	if err != nil {
		return fmt.Errorf("lm: %s: %w", path, err)
	}
	return nil
}
