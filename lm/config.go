package lm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Config is what of a checkpoint's config.json the decoders use, under common names.
type Config struct {
	Type      string  // model_type
	Vocab     int     // vocab_size
	Context   int     // most tokens of a sequence
	Hidden    int     // width of the residual stream
	Layers    int     // blocks
	Heads     int     // attention heads
	Inner     int     // width inside the MLP
	NormEps   float64 // added to the variance
	Gelu      string  // activation: gelu_new or gelu
	TiedHead  bool    // the output projection is the token embedding
	EOS       []int32 // tokens that end a sequence
	ScaleAttn bool    // attention scores are divided by √D
}

// HeadDim returns D, the width of one attention head.
func (c Config) HeadDim() int { return c.Hidden / c.Heads }

// readConfig reads dir/config.json and refuses by name what the decoders would otherwise silently ignore.
func readConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("lm: %w", err)
	}
	var head struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return Config{}, fmt.Errorf("lm: %s: %w", path, err)
	}
	parse, ok := architectures[head.Type]
	if !ok {
		return Config{}, fmt.Errorf("lm: %s: model_type %q is not supported (supported: %s)", path, head.Type, strings.Join(supported(), ", "))
	}
	c, err := parse.config(raw)
	if err != nil {
		return Config{}, fmt.Errorf("lm: %s: %w", path, err)
	}
	c.Type = head.Type
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("lm: %s: %w", path, err)
	}
	return c, nil
}

func (c Config) check() error {
	const limit = 1 << 24
	for _, v := range []struct {
		name  string
		value int
	}{{"vocabulary size", c.Vocab}, {"context length", c.Context}, {"hidden size", c.Hidden}, {"number of layers", c.Layers}, {"number of heads", c.Heads}, {"MLP width", c.Inner}} {
		if v.value < 1 || v.value > limit {
			return fmt.Errorf("the %s is %d", v.name, v.value)
		}
	}
	if c.Hidden%c.Heads != 0 {
		return fmt.Errorf("the hidden size %d is no multiple of the %d heads", c.Hidden, c.Heads)
	}
	if c.NormEps <= 0 {
		return fmt.Errorf("the norm's epsilon is %g", c.NormEps)
	}
	for _, id := range c.EOS {
		if id < 0 || int(id) >= c.Vocab {
			return fmt.Errorf("the end-of-text token %d is outside the vocabulary of %d", id, c.Vocab)
		}
	}
	return nil
}

// tokenIDs reads a token id that configs write as a number, a list or null.
type tokenIDs []int32

func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var one int32
	if json.Unmarshal(b, &one) == nil {
		*t = tokenIDs{one}
		return nil
	}
	var many []int32
	if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("a token id is neither a number nor a list: %s", b)
	}
	*t = many
	return nil
}

func supported() []string {
	var names []string
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
