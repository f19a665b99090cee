package sentence

import (
	"fmt"

	"popri/internal/quote"
)

// bertConfig has the relevant fields of a BERT's config.json. The hash of an encoder, which runs record, holds its
// form.
type bertConfig struct {
	Vocab    int     `json:"vocab_size"`
	Hidden   int     `json:"hidden_size"`
	Layers   int     `json:"num_hidden_layers"`
	Heads    int     `json:"num_attention_heads"`
	Inner    int     `json:"intermediate_size"`
	Context  int     `json:"max_position_embeddings"`
	Types    int     `json:"type_vocab_size"`
	NormEps  float64 `json:"layer_norm_eps"`
	Act      string  `json:"hidden_act"`
	Position string  `json:"position_embedding_type"`
	Type     string  `json:"model_type"`
}

func (b *bertConfig) known() []string { return nil }

func (b *bertConfig) config() (Config, error) {
	c := Config{Kind: b.Type, Vocab: b.Vocab, Hidden: b.Hidden, Layers: b.Layers, Heads: b.Heads, Inner: b.Inner,
		NormEps: b.NormEps, Context: b.Context, Pad: -1, Act: b.Act}
	switch {
	case b.Types < 1 || b.Types > 1<<24:
		return c, fmt.Errorf("type_vocab_size is %d", b.Types)
	case b.Position != "absolute":
		return c, quote.Errorf("position_embedding_type %q is not supported (supported: absolute)", b.Position)
	}
	return c, c.divide()
}

// divide sets the width of the heads and checks what models of BERT's kind share.
func (c *Config) divide() error {
	switch {
	case c.Heads < 1 || c.Hidden%c.Heads != 0:
		return fmt.Errorf("hidden_size %d is no multiple of the %d heads", c.Hidden, c.Heads)
	case c.Act != "gelu":
		return quote.Errorf("hidden_act %q is not supported (supported: gelu)", c.Act)
	case c.Context-max(0, c.Pad+1) < 1 || c.Context > 1<<24:
		return fmt.Errorf("max_position_embeddings is %d", c.Context)
	}
	c.HeadDim = c.Hidden / c.Heads
	return nil
}

// robertaConfig is RoBERTa's (Liu et al., arXiv 1907.11692), XLM-RoBERTa's and CamemBERT's: a BERT that counts
// positions from the padding's id on.
type robertaConfig struct {
	bertConfig
	Pad int `json:"pad_token_id"`
}

func (r *robertaConfig) config() (Config, error) {
	c, err := r.bertConfig.config()
	c.Pad = r.Pad
	if err == nil {
		err = c.divide()
	}
	return c, err
}

// mpnetConfig is MPNet's (Song et al., arXiv 2004.09297): a BERT whose scores of attention also depend on how far apart
// two tokens are.
type mpnetConfig struct {
	Vocab   int     `json:"vocab_size"`
	Hidden  int     `json:"hidden_size"`
	Layers  int     `json:"num_hidden_layers"`
	Heads   int     `json:"num_attention_heads"`
	Inner   int     `json:"intermediate_size"`
	Context int     `json:"max_position_embeddings"`
	Buckets int     `json:"relative_attention_num_buckets"`
	NormEps float64 `json:"layer_norm_eps"`
	Act     string  `json:"hidden_act"`
	Pad     int     `json:"pad_token_id"`
}

func (m *mpnetConfig) known() []string { return nil }

func (m *mpnetConfig) config() (Config, error) {
	c := Config{Kind: kindMPNet, Vocab: m.Vocab, Hidden: m.Hidden, Layers: m.Layers, Heads: m.Heads, Inner: m.Inner,
		NormEps: m.NormEps, Context: m.Context, Pad: m.Pad, Buckets: m.Buckets, MaxDistance: 128, Act: m.Act}
	if m.Buckets != 32 {
		return c, fmt.Errorf("relative_attention_num_buckets is %d, and the reference computes with 32 whatever it "+
			"says", m.Buckets)
	}
	return c, c.divide()
}

// bertNames are the tensors of a layer where two kinds differ: queries, keys, values, output and the norm after it.
var bertNames = map[string][5]string{
	kindBERT: {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
		"attention.output.LayerNorm"},
	kindMPNet: {"attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o", "attention.LayerNorm"},
}

// bertWeights reads the tensors of BERT, RoBERTa and its kin, or MPNet.
func (f *Folder) bertWeights(r *reader) *Weights {
	c := f.Config
	h := c.Hidden
	w := &Weights{
		Word:     r.take("embeddings.word_embeddings.weight", c.Vocab, h),
		Position: r.take("embeddings.position_embeddings.weight", c.Context, h),
		NormW:    r.take("embeddings.LayerNorm.weight", h),
		NormB:    r.take("embeddings.LayerNorm.bias", h),
	}
	names, ok := bertNames[c.Kind]
	if !ok {
		names = bertNames[kindBERT]
	}
	types := 0
	switch d := f.described.(type) {
	case *bertConfig:
		types = d.Types
	case *robertaConfig:
		types = d.Types
	case *mpnetConfig:
		w.Relative = r.take("encoder.relative_attention_bias.weight", c.Buckets, c.Heads)
	}
	if types > 0 {
		if t := r.take("embeddings.token_type_embeddings.weight", types, h); t != nil {
			for i := range w.Position {
				w.Position[i] += t[i%h]
			}
		}
	}
	for i := range c.Layers {
		p := fmt.Sprintf("encoder.layer.%d.", i)
		var l Layer
		for _, name := range names[:3] {
			l.QKV = append(l.QKV, r.take(p+name+".weight", h, h)...)
			l.QKVBias = append(l.QKVBias, r.take(p+name+".bias", h)...)
		}
		l.Out, l.OutBias = r.take(p+names[3]+".weight", h, h), r.take(p+names[3]+".bias", h)
		l.AttnNormW, l.AttnNormB = r.take(p+names[4]+".weight", h), r.take(p+names[4]+".bias", h)
		l.Up, l.UpBias = r.take(p+"intermediate.dense.weight", c.Inner, h), r.take(p+"intermediate.dense.bias", c.Inner)
		l.Down, l.DownBias = r.take(p+"output.dense.weight", h, c.Inner), r.take(p+"output.dense.bias", h)
		l.MLPNormW, l.MLPNormB = r.take(p+"output.LayerNorm.weight", h), r.take(p+"output.LayerNorm.bias", h)
		w.Layers = append(w.Layers, l)
	}
	return w
}
