package lm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/tensor"
)

// Config has the fields of a checkpoint's config.json that the decoders use, under common names.
type Config struct {
	Type      string  // model_type
	Vocab     int     // vocab_size
	Context   int     // most tokens of a sequence
	Hidden    int     // width of the residual stream
	Layers    int     // blocks
	Heads     int     // attention heads
	KVHeads   int     // heads of keys and values, each serving Heads/KVHeads query heads; 0 means Heads
	Dim       int     // width of one head; 0 means Hidden/Heads
	Inner     int     // width inside the MLP
	NormEps   float64 // added to the variance
	Gelu      string  // activation of an MLP without gates, by a name of [activations]
	TiedHead  bool    // the output projection is the token embedding
	EOS       []int32 // tokens that end a sequence
	ScaleAttn bool    // attention scores are divided by √D
	AttnScale float64 // attention scores are multiplied by it instead; 0 for not at all

	// Labels are the labels of a classifier, in the order of its outputs; none of a language model.
	Labels []string

	// Masked says that the model predicts masked tokens, every token seeing all of its row ([LoadMasked]).
	Masked bool
	// FirstPosition is the row of the position embeddings that a text begins with.
	FirstPosition int

	Types  int    // type_vocab_size of BERT, whose texts have type 0; 0 elsewhere
	Rotary Rotary // rotary positions, where the architecture has them
	// Local marks the layers of Gemma 3 that rotate by the base LocalTheta, Unturned the layers of SmolLM3 that do not
	// rotate. nil for none.
	Local, Unturned []bool
	LocalTheta      float64
	// Granite multiplies embeddings and the outputs of attention and MLP, and divides the logits, by these; 0 for not
	// at all.
	EmbedScale, ResidualScale, LogitsScale float64
	// Gemma 2 caps attention scores and logits: x becomes cap·tanh(x/cap); 0 for not at all.
	AttnCap, LogitsCap float64
	QKVBias            bool // query, key and value projections have biases
	OutBias            bool // so has the attention's output projection
	MLPBias            bool // and the MLP's
	Parallel           bool // attention and MLP of GPT-NeoX have the same input
	OPT                OPT  // of OPT alone
}

// HeadDim returns D, the width of one attention head.
func (c Config) HeadDim() int {
	if c.Dim > 0 {
		return c.Dim
	}
	return c.Hidden / c.Heads
}

// complete replaces zero values by what they mean.
func (c Config) complete() Config {
	c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	if c.Dim == 0 && c.Heads > 0 && c.Hidden%c.Heads == 0 {
		c.Dim = c.Hidden / c.Heads
	}
	return c
}

// readConfig reads dir/config.json and refuses by name every field that the decoders would otherwise ignore silently.
// The tokens that end a sequence are from generation_config.json, if that file names any.
func readConfig(dir string) (Config, error) {
	c, err := readAnyConfig(dir)
	if err == nil && architectures[c.Type].masked {
		err = fmt.Errorf("lm: %s: %w", filepath.Join(dir, configFile),
			Unsupported(c.Type, "supported: "+strings.Join(Families(), ", ")))
	}
	return c, err
}

// readAnyConfig is readConfig, also of families that only predict masked tokens.
func readAnyConfig(dir string) (Config, error) {
	path := filepath.Join(dir, configFile)
	raw, err := fault.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("lm: %w", err)
	}
	c, err := parseConfig(exactjson.TrimBOM(raw))
	if err != nil {
		return Config{}, fmt.Errorf("lm: %s: %w", path, err)
	}
	generation := filepath.Join(dir, "generation_config.json")
	if raw, err := fault.ReadFile(generation); err == nil {
		var g struct {
			EOS tokenIDs `json:"eos_token_id"`
		}
		if err := json.Unmarshal(exactjson.TrimBOM(raw), &g); err != nil {
			return Config{}, fmt.Errorf("lm: %s: %w", generation, quote.JSON(err))
		}
		if len(g.EOS) > 0 {
			c.EOS = g.EOS
			if least, most := slices.Min(g.EOS), slices.Max(g.EOS); least < 0 || int(most) >= c.Vocab {
				return Config{}, fmt.Errorf("lm: %s: eos_token_id: %v: the vocabulary has %d tokens", generation, g.EOS, c.Vocab)
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("lm: %w", err)
	}
	c = c.complete()
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("lm: %s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the content of a config.json, which must be complete and make sense.
func ParseConfig(raw []byte) (Config, error) {
	c, err := parseConfig(raw)
	if err == nil {
		c = c.complete()
		err = c.check()
	}
	if err != nil {
		return Config{}, fmt.Errorf("lm: %w", err)
	}
	return c, nil
}

// parseConfig reads the content of a config.json.
func parseConfig(raw []byte) (Config, error) {
	name, err := Family(raw)
	if err != nil {
		return Config{}, err
	}
	arch, ok := architectures[name]
	if !ok {
		return Config{}, Unsupported(name, "supported: "+strings.Join(Families(), ", "))
	}
	if err := quantized(raw); err != nil {
		return Config{}, err
	}
	c, err := arch.config(raw)
	if unknown, ok := errors.AsType[*hfconfig.Unknown](err); ok {
		_, more := arch.config(unknown.Rest())
		err = both(err, more)
	}
	c.Type = name
	return c, err
}

// both is two problems of one file in a line; either may be nil.
func both(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

// quantized refuses weights that are packed into fewer bits, which other programs unpack as they compute. No accepted
// key helps.
func quantized(raw []byte) error {
	const key = "quantization_config"
	fields, err := exactjson.Fields(raw)
	if err != nil || len(fields[key]) == 0 || hfconfig.Off(fields[key]) {
		return err
	}
	return fmt.Errorf("%s: %s: the weights are quantised, and popri trains adapters on float32, float16 or bfloat16 "+
		"weights alone: take the folder of the model before quantisation, or a GGUF file of it, which popri model "+
		"import turns into plain weights", key, quote.Raw(fields[key]))
}

func (c Config) check() error {
	const limit = 1 << 24
	for _, v := range []struct {
		name  string
		value int
	}{{"vocabulary size", c.Vocab}, {"context length", c.Context}, {"hidden size", c.Hidden},
		{"number of layers", c.Layers}, {"number of heads", c.Heads},
		{"number of key-value heads", c.KVHeads}, {"MLP width", c.Inner}} {
		if v.value < 1 || v.value > limit {
			return fmt.Errorf("the %s is %d", v.name, v.value)
		}
	}
	if c.Layers > mostLayers {
		return fmt.Errorf("the number of layers is %d", c.Layers)
	}
	if c.Dim == 0 {
		return fmt.Errorf("the hidden size %d is no multiple of the %d heads", c.Hidden, c.Heads)
	}
	if c.Dim < 0 || c.Dim > limit {
		return fmt.Errorf("the width of a head is %d", c.Dim)
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("the %d heads are no multiple of the %d key-value heads", c.Heads, c.KVHeads)
	}
	if !(c.NormEps > 0) {
		return fmt.Errorf("the norm's epsilon is %g", c.NormEps)
	}
	for _, id := range c.EOS {
		if id < 0 || int(id) >= c.Vocab {
			return fmt.Errorf("the end-of-text token %d is outside the vocabulary of %d", id, c.Vocab)
		}
	}
	return c.Rotary.check(c.Dim)
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
		return fmt.Errorf("a token id is neither a number nor a list: %s", quote.Raw(b))
	}
	*t = many
	return nil
}

// Activations estimates the bytes that a row of tokens, of which some are scored, needs while its gradient is computed.
// A block keeps about five rows of the residual stream, the keys and values, and four rows of the MLP for a token, and
// as much again in gradients and intermediate values, or its input alone where recompute says that it is computed
// again; the logits are there in float32 three times. For SmolLM2-135M in bfloat16 it gives 2.2 GiB with 4 pairs on
// each of two threads, where 2.4 GiB were measured for all of a training but the weights.
func (c *Config) Activations(tokens, scored int64, compute tensor.DType, recompute bool) int64 {
	used, layers := int64(compute.Size()), int64(c.Layers)
	block := 2 * used * int64(5*c.Hidden+2*c.KVHeads*c.HeadDim()+4*c.Inner)
	kept := tokens * layers * block
	if recompute {
		kept = tokens * (block + layers*int64(c.Hidden)*used)
	}
	return kept + 12*int64(c.Vocab)*scored
}

// Residual lists the ends of the names of projections onto the residual stream: the last ones of attention and MLP.
func (c Config) Residual() []string { return architectures[c.Type].residual }
