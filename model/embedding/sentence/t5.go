package sentence

import (
	"fmt"
	"strings"

	"popri/internal/quote"
)

// t5Config has the relevant fields of a T5's config.json (Raffel et al., arXiv 1910.10683). Only the encoder is read.
type t5Config struct {
	Vocab       int     `json:"vocab_size"`
	Hidden      int     `json:"d_model"`
	HeadDim     int     `json:"d_kv"`
	Inner       int     `json:"d_ff"`
	Layers      int     `json:"num_layers"`
	Heads       int     `json:"num_heads"`
	Buckets     int     `json:"relative_attention_num_buckets"`
	MaxDistance int     `json:"relative_attention_max_distance"`
	NormEps     float64 `json:"layer_norm_epsilon"`
	Act         string  `json:"feed_forward_proj"`
	Positions   int     `json:"n_positions"` // the length that it was trained with
	// What feed_forward_proj says, once more.
	DenseAct *string `json:"dense_act_fn"`
	Gated    *bool   `json:"is_gated_act"`
}

func (*t5Config) known() []string {
	return []string{"dropout_rate", "initializer_factor", "is_encoder_decoder", "num_decoder_layers",
		"decoder_start_token_id", "scale_decoder_outputs"}
}

func (t *t5Config) config() (Config, error) {
	c := Config{Kind: kindT5, Vocab: t.Vocab, Hidden: t.Hidden, Layers: t.Layers, Heads: t.Heads, HeadDim: t.HeadDim,
		Inner: t.Inner, NormEps: t.NormEps, Pad: -1, Buckets: t.Buckets, MaxDistance: t.MaxDistance}
	switch t.Act {
	case "relu":
		c.Act = "relu"
	case "gated-gelu":
		c.Act, c.Gated = "gelu_new", true
	default:
		return c, quote.Errorf("feed_forward_proj %q is not supported (supported: relu, gated-gelu)", t.Act)
	}
	switch {
	case t.DenseAct != nil && *t.DenseAct != c.Act:
		return c, quote.Errorf("dense_act_fn is %q, feed_forward_proj %q makes it %q", *t.DenseAct, t.Act, c.Act)
	case t.Gated != nil && *t.Gated != c.Gated:
		return c, quote.Errorf("is_gated_act is %v, feed_forward_proj %q makes it %v", *t.Gated, t.Act, c.Gated)
	case t.Positions < 1 || t.Positions > 1<<20:
		return c, fmt.Errorf("n_positions is %d", t.Positions)
	}
	return c, nil
}

// t5Weights reads the tensors of T5's encoder. Relative positions are the first layer's, which all layers use.
func (f *Folder) t5Weights(r *reader) *Weights {
	c := f.Config
	h, attention := c.Hidden, c.Heads*c.HeadDim
	w := &Weights{}
	// The table of tokens is the decoder's too, and may stand under either name or under both.
	shared, own := "shared.weight", "encoder.embed_tokens.weight"
	if _, ok := f.names[shared]; !ok {
		shared, own = own, ""
	}
	w.Word = r.take(shared, c.Vocab, h)
	delete(f.names, own)
	for i := range c.Layers {
		p := fmt.Sprintf("encoder.block.%d.layer.", i)
		var l Layer
		for _, name := range []string{"q", "k", "v"} {
			l.QKV = append(l.QKV, r.take(p+"0.SelfAttention."+name+".weight", attention, h)...)
		}
		if i == 0 {
			w.Relative = r.take(p+"0.SelfAttention.relative_attention_bias.weight", c.Buckets, c.Heads)
		}
		l.Out = r.take(p+"0.SelfAttention.o.weight", h, attention)
		l.AttnNormW = r.take(p+"0.layer_norm.weight", h)
		if c.Gated {
			l.Up = r.take(p+"1.DenseReluDense.wi_0.weight", c.Inner, h)
			l.Gate = r.take(p+"1.DenseReluDense.wi_1.weight", c.Inner, h)
		} else {
			l.Up = r.take(p+"1.DenseReluDense.wi.weight", c.Inner, h)
		}
		l.Down = r.take(p+"1.DenseReluDense.wo.weight", h, c.Inner)
		l.MLPNormW = r.take(p+"1.layer_norm.weight", h)
		w.Layers = append(w.Layers, l)
	}
	w.FinalNorm = r.take("encoder.final_layer_norm.weight", h)
	return w
}

// unusedPart says which tensors belong to parts of a checkpoint that embedding does not use: position numbers, BERT's
// classifying part, T5's decoder.
func unusedPart(kind, name string) bool {
	if kind == kindT5 {
		return strings.HasPrefix(name, "decoder.") || name == "lm_head.weight"
	}
	for _, prefix := range []string{"pooler.", "cls.", "lm_head."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "embeddings.position_ids"
}
