package sentence

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/hfconfig"
	"popri/internal/quote"
)

// Config says what network the folder holds.
type Config struct {
	Kind    string // model_type, one of Kinds
	Vocab   int
	Hidden  int
	Layers  int
	Heads   int
	HeadDim int // Heads·HeadDim is Hidden, but in T5
	Inner   int
	NormEps float64

	// Context is how many positions the table of positions has; 0: there is none.
	Context int
	// Pad is the id that the count of positions passes over, which begins at Pad + 1; -1: positions count from 0.
	Pad int
	// Buckets are the relative positions that the attention distinguishes, up to MaxDistance; 0: none.
	Buckets, MaxDistance int

	// Act is the activation of the inner layer: gelu, gelu_new (its tanh form) or relu. Gated multiplies it by a second
	// layer.
	Act   string
	Gated bool
}

// PreNorm says that a layer normalizes what it is given, by T5's root mean square, instead of what it adds up to.
func (c Config) PreNorm() bool { return c.Kind == kindT5 }

// The model types.
const (
	kindBERT      = "bert"
	kindRoBERTa   = "roberta"
	kindXLMR      = "xlm-roberta"
	kindCamemBERT = "camembert"
	kindMPNet     = "mpnet"
	kindT5        = "t5"
)

// Kinds are the model types that can be read.
var Kinds = []string{kindBERT, kindRoBERTa, kindXLMR, kindCamemBERT, kindMPNet, kindT5}

// described is a config.json of one model type.
type described interface {
	config() (Config, error)
	// known are fields of this type that do not change what an encoder of texts computes.
	known() []string
}

func newDescribed(kind string) (described, error) {
	bert := bertConfig{Vocab: 30522, Hidden: 768, Layers: 12, Heads: 12, Inner: 3072, Context: 512, Types: 2,
		NormEps: 1e-12, Act: "gelu", Position: "absolute", Type: kindBERT}
	switch kind {
	case kindBERT:
		return &bert, nil
	case kindRoBERTa, kindXLMR, kindCamemBERT:
		bert.Type = kind
		if kind == kindRoBERTa {
			bert.Vocab = 50265
		}
		return &robertaConfig{bertConfig: bert, Pad: 1}, nil
	case kindMPNet:
		return &mpnetConfig{Vocab: 30527, Hidden: 768, Layers: 12, Heads: 12, Inner: 3072, Context: 512, Buckets: 32,
			NormEps: 1e-12, Act: "gelu", Pad: 1}, nil
	case kindT5:
		return &t5Config{Vocab: 32128, Hidden: 512, HeadDim: 64, Layers: 6, Heads: 8, Inner: 2048, Buckets: 32,
			MaxDistance: 128, NormEps: 1e-6, Act: "relu", Positions: 512}, nil
	}
	return nil, quote.Errorf("model_type %q is not supported (supported: %s)", kind, quote.Raw(strings.Join(Kinds, ", ")))
}

func (f *Folder) readConfig() error {
	path := filepath.Join(f.Dir, "config.json")
	var d described
	found, err := f.readJSON("config.json", func(raw []byte) error {
		// The type is checked first: the fields of another model would only confuse.
		var head struct {
			Type string `json:"model_type"`
		}
		err := json.Unmarshal(raw, &head)
		if err != nil {
			return err
		}
		if d, err = newDescribed(head.Type); err != nil {
			return err
		}
		harmless := slices.Concat(d.known(), []string{"tie_word_embeddings", "eos_token_id"})
		if err := hfconfig.Decode(raw, d, harmless...); err != nil {
			return err
		}
		if f.Config, err = d.config(); err != nil {
			return err
		}
		return f.Config.check()
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is missing", path)
	}
	f.described = d
	return f.readLength()
}

// Multiplied returns the number of weights that the encoder in dir multiplies each token with, from its config.json.
func Multiplied(dir string) (int, error) {
	f := &Folder{Dir: dir}
	if err := f.readConfig(); err != nil {
		return 0, fmt.Errorf("embedding: %w", err)
	}
	c, inner := f.Config, 2
	if c.Gated {
		inner = 3
	}
	return c.Layers * c.Hidden * (4*c.Heads*c.HeadDim + inner*c.Inner), nil
}

// check refuses sizes that make no network.
func (c Config) check() error {
	for _, v := range []struct {
		name  string
		value int
	}{{"the vocabulary", c.Vocab}, {"the width", c.Hidden}, {"the number of layers", c.Layers},
		{"the number of heads", c.Heads}, {"the width of a head", c.HeadDim}, {"the inner width", c.Inner}} {
		if v.value < 1 || v.value > 1<<24 {
			return fmt.Errorf("%s is %d", v.name, v.value)
		}
	}
	switch {
	case c.Heads*c.HeadDim > 1<<24:
		return fmt.Errorf("%d heads of %d values are too many", c.Heads, c.HeadDim)
	case c.Pad < -1 || c.Pad >= 1<<24:
		return fmt.Errorf("pad_token_id is %d", c.Pad)
	case c.Buckets != 0 && (c.Buckets < 4 || c.Buckets > 1<<16 || c.Buckets%2 != 0):
		return fmt.Errorf("relative_attention_num_buckets is %d, allowed are even numbers from 4 to %d", c.Buckets, 1<<16)
	case c.Buckets != 0 && (c.MaxDistance <= c.Buckets/4 || c.MaxDistance > 1<<24):
		return fmt.Errorf("relative_attention_max_distance is %d, which is not above a quarter of the %d buckets",
			c.MaxDistance, c.Buckets)
	case !(c.NormEps > 0):
		return fmt.Errorf("the layer norm's epsilon is %g", c.NormEps)
	}
	return nil
}

// readLength finds the longest text in tokens.
func (f *Folder) readLength() error {
	most := f.Config.Context - max(0, f.Config.Pad+1)
	if f.Config.Context == 0 {
		most = 1 << 20 // relative positions have no end
	}
	s := struct {
		Max   int  `json:"max_seq_length"`
		Lower bool `json:"do_lower_case"`
	}{}
	name := ""
	for _, kind := range []string{"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"} {
		name = "sentence_" + kind + "_config.json"
		found, err := f.readJSON(name, func(raw []byte) error { return json.Unmarshal(raw, &s) })
		if err != nil {
			return err
		}
		if found {
			break
		}
	}
	if s.Lower {
		return fmt.Errorf("%s: do_lower_case is not supported: the tokenizer says whether case counts",
			filepath.Join(f.Dir, name))
	}
	if s.Max == 0 {
		var t struct {
			Max float64 `json:"model_max_length"` // 1e30 where nobody set it
		}
		if _, err := f.readJSON("tokenizer_config.json", func(raw []byte) error { return json.Unmarshal(raw, &t) }); err != nil {
			return err
		}
		s.Max = most
		if f.Config.Context == 0 {
			s.Max = f.described.(*t5Config).Positions
		}
		if t.Max >= 1 && t.Max < float64(most) {
			s.Max = int(t.Max)
		}
	}
	if s.Max < 1 || s.Max > most {
		return fmt.Errorf("%s: max_seq_length is %d, the model has %d positions", filepath.Join(f.Dir, name), s.Max, most)
	}
	f.MaxTokens = s.Max
	return nil
}

// readPrompt reads what goes before each text.
func (f *Folder) readPrompt() error {
	_, err := f.readJSON("config_sentence_transformers.json", func(raw []byte) error {
		var c struct {
			Prompts map[string]string `json:"prompts"`
			Default *string           `json:"default_prompt_name"`
			Dim     *int              `json:"truncate_dim"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		if c.Dim != nil {
			return fmt.Errorf("truncate_dim is %d: vectors that are cut are not supported", *c.Dim)
		}
		if c.Default == nil {
			return nil
		}
		prompt, ok := c.Prompts[*c.Default]
		if !ok {
			return quote.Errorf("default_prompt_name %q is not among the prompts", *c.Default)
		}
		f.Prompt = prompt
		if f.Prompt != "" && f.pooling.withoutPrompt {
			return errors.New("a prompt that the pooling leaves out (include_prompt false) is not supported")
		}
		return nil
	})
	return err
}
