package lm

import (
	"fmt"

	"popri/internal/hfconfig"
)

// Gemma 2 (Gemma Team 2024): Gemma 3 without norms of queries and keys, with one rotary base, and with caps of
// attention scores and logits. Every other layer is local; the context is cut to the window, within which that is full
// attention.
var gemma2 = architecture{config: gemma2Config, fields: gemma2Fields, build: gemma2Build, rename: llamaName,
	residual: llamaResidual}

func gemma2Config(raw []byte) (Config, error) {
	f := struct {
		gemmaLike
		AttnCap   *float64 `json:"attn_logit_softcapping"`
		LogitsCap *float64 `json:"final_logit_softcapping"`
		Again     *int     `json:"sliding_window_size"` // an earlier name of sliding_window
	}{gemmaLike: gemmaLike{llamaLike: llamaLike{Vocab: 256000, Context: 8192, Hidden: 2304, Layers: 26, Heads: 8,
		KVHeads: 4, Dim: 256, Inner: 9216, Eps: 1e-6, Act: "silu", Tied: true, Window: new(4096),
		rotaryFields: rotaryFields{Theta: 1e4}},
		GemmaAct: gemmaAct, QueryScale: 256}, AttnCap: new(50.0), LogitsCap: new(30.0)}
	if err := hfconfig.Decode(raw, &f, "cache_implementation", "hidden_act"); err != nil {
		return Config{}, err
	}
	if f.Again != nil && (f.Window == nil || *f.Again != *f.Window) {
		return Config{}, fmt.Errorf("sliding_window_size is %d, and sliding_window another", *f.Again)
	}
	c, err := f.gemma()
	for name, v := range map[string]*float64{"attn_logit_softcapping": f.AttnCap,
		"final_logit_softcapping": f.LogitsCap} {
		if v != nil && !(*v > 0) {
			return c, fmt.Errorf("%s is %g", name, *v)
		}
	}
	if f.AttnCap != nil { // null is no cap
		c.AttnCap = *f.AttnCap
	}
	if f.LogitsCap != nil {
		c.LogitsCap = *f.LogitsCap
	}
	return c, err
}

func gemma2Fields(c Config) map[string]any {
	f := llamaFields("Gemma2ForCausalLM")(c)
	delete(f, "hidden_act")
	f["hidden_activation"], f["attention_bias"] = gemmaAct, c.QKVBias
	f["query_pre_attn_scalar"], f["sliding_window"], f["cache_implementation"] = 1/(c.AttnScale*c.AttnScale), c.Context,
		"hybrid"
	limit := func(v float64) any {
		if v == 0 {
			return nil
		}
		return v
	}
	f["attn_logit_softcapping"], f["final_logit_softcapping"] = limit(c.AttnCap), limit(c.LogitsCap)
	return f
}

func gemma2Build(b *builder) { b.gemma(func(int, string, *block) {}) }
