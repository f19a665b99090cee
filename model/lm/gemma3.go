package lm

import (
	"encoding/json"
	"fmt"
	"math"

	"popri/internal/hfconfig"
	"popri/internal/quote"
	"popri/model/tensor"
)

// Gemma 3 (Gemma Team 2025), the models of text: RMS norms with the factor 1 + weight of the inputs and of the outputs
// of attention and MLP, and of each query and key; GeGLU; embeddings times √H. Most layers are local: they attend to a
// window of the last tokens and have a rotary base of their own. The context is cut to the window, within which that is
// full attention.
var gemma3 = architecture{config: gemma3Config, fields: gemma3Fields, build: gemma3Build, rename: llamaName,
	residual: llamaResidual}

// gemmaLike are the fields of config.json that Gemma 2 and 3 have in common.
type gemmaLike struct {
	llamaLike
	GemmaAct   string  `json:"hidden_activation"`
	QueryScale float64 `json:"query_pre_attn_scalar"`
}

// gemma checks the fields, and resolves LLaMA's.
func (f gemmaLike) gemma() (Config, error) {
	if f.GemmaAct != gemmaAct {
		return Config{}, quote.Errorf("hidden_activation: %q is not supported (%s)", f.GemmaAct, gemmaAct)
	}
	if !(f.QueryScale > 0) {
		return Config{}, fmt.Errorf("query_pre_attn_scalar is %g", f.QueryScale)
	}
	f.Act = "silu" // hidden_act is not read
	f.windowed = true
	c, err := f.resolve()
	c.AttnScale = 1 / math.Sqrt(f.QueryScale)
	return c, err
}

// gemmaAct is the activation, the tanh form of GELU.
const gemmaAct = "gelu_pytorch_tanh"

func gemma3Config(raw []byte) (Config, error) {
	f := struct {
		gemmaLike
		LocalTheta float64 `json:"rope_local_base_freq"`
		Pattern    int     `json:"sliding_window_pattern"`
		Every      int     `json:"_sliding_window_pattern"`
	}{gemmaLike: gemmaLike{llamaLike: llamaLike{Vocab: 262208, Context: 131072, Hidden: 2304, Layers: 26, Heads: 8,
		KVHeads: 4, Dim: 256, Inner: 9216, Eps: 1e-6, Act: "silu", Tied: true, Window: new(4096),
		rotaryFields: rotaryFields{Theta: 1e6}},
		GemmaAct: gemmaAct, QueryScale: 256}, LocalTheta: 1e4, Pattern: 6}
	if err := hfconfig.Decode(raw, &f, "cache_implementation", "hidden_act"); err != nil {
		return Config{}, err
	}
	if err := f.splitRotary(&f.LocalTheta); err != nil {
		return Config{}, err
	}
	c, err := f.gemma()
	if err != nil {
		return c, err
	}
	if c.Layers > mostLayers {
		return c, fmt.Errorf("num_hidden_layers is %d", c.Layers)
	}
	if f.Every > 0 {
		f.Pattern = f.Every
	}
	switch {
	case f.LayerTypes != nil && len(f.LayerTypes) != c.Layers:
		return c, fmt.Errorf("layer_types has %d values, num_hidden_layers is %d", len(f.LayerTypes), c.Layers)
	case f.LayerTypes == nil && f.Pattern < 1:
		return c, fmt.Errorf("sliding_window_pattern is %d", f.Pattern)
	}
	c.Local = make([]bool, max(0, c.Layers))
	for i := range c.Local {
		if f.LayerTypes != nil {
			c.Local[i] = f.LayerTypes[i] == localLayer
		} else {
			c.Local[i] = (i+1)%f.Pattern != 0
		}
	}
	c.LocalTheta = f.LocalTheta
	return c, nil
}

// localLayer and fullLayer are the values of layer_types, and the keys of rope_parameters.
const localLayer, fullLayer = "sliding_attention", "full_attention"

// splitRotary puts the rotary positions of full layers where all layers have theirs, and the base of local ones in
// local, where rope_parameters has them by the type of layer, as transformers 5 writes them.
func (f *llamaLike) splitRotary(local *float64) error {
	if len(f.Parameters) == 0 || hfconfig.Off(f.Parameters) {
		return nil
	}
	var by map[string]json.RawMessage
	if err := json.Unmarshal(f.Parameters, &by); err != nil {
		return fmt.Errorf("rope_parameters: %w", quote.JSON(err))
	}
	own, ok := by[localLayer]
	if !ok {
		return nil
	}
	r, err := rotaryFields{Theta: *local, Parameters: own}.rotary(false, 0, 0)
	if err != nil {
		return err
	}
	if r.Scaling != "" {
		return quote.Errorf("rope_parameters: %s: rope_type: %q is not supported (default)", localLayer, r.Scaling)
	}
	*local, f.Parameters = r.Theta, by[fullLayer]
	return nil
}

func gemma3Fields(c Config) map[string]any {
	f := llamaFields("Gemma3ForCausalLM")(c)
	delete(f, "hidden_act")
	types := make([]string, c.Layers)
	for i := range types {
		if types[i] = fullLayer; i < len(c.Local) && c.Local[i] {
			types[i] = localLayer
		}
	}
	f["hidden_activation"], f["attention_bias"], f["layer_types"] = gemmaAct, c.QKVBias, types
	f["query_pre_attn_scalar"], f["rope_local_base_freq"] = 1/(c.AttnScale*c.AttnScale), c.LocalTheta
	f["sliding_window"], f["cache_implementation"] = c.Context, "hybrid"
	return f
}

func gemma3Build(b *builder) {
	b.gemma(func(i int, p string, x *block) {
		b.headNorms(p, x)
		x.attn.local = i < len(b.Local) && b.Local[i]
	})
}

// gemma builds a Gemma; further adds what the blocks of one generation have besides.
func (b *builder) gemma(further func(i int, p string, x *block)) {
	b.offset = true
	b.decoder(func(i int, p string) block {
		x := b.gatedBlock(p)
		x.formula, x.mlp.act, x.mlp.up.gates = gemmaBlock, geGLU, false
		further(i, p, &x)
		x.attnNorm = b.rmsNorm(p+"input_layernorm", b.hidden)
		x.attnOut = b.rmsNorm(p+"post_attention_layernorm", b.hidden)
		x.mlpNorm = b.rmsNorm(p+"pre_feedforward_layernorm", b.hidden)
		x.mlpOut = b.rmsNorm(p+"post_feedforward_layernorm", b.hidden)
		return x
	})
	b.m.embedding.scale = math.Sqrt(float64(b.hidden))
}

// gemmaBlock is
//
//	h = x + RMSNorm(llamaAttention(RMSNorm(x)))
//	y = h + RMSNorm(gatedMLP(RMSNorm(h)))
func gemmaBlock(p *plain, b *block, x tensor.Tensor) tensor.Tensor {
	y := p.norm(b.attnOut, llamaAttention(p, b, p.norm(b.attnNorm, x)))
	x = p.Add(x, p.dropout(dropAttention, y))
	return p.Add(x, p.dropout(dropMLP, p.norm(b.mlpOut, gatedMLP(p, b, p.norm(b.mlpNorm, x)))))
}
