package lm

import (
	"encoding/json"
	"fmt"
	"strings"

	"popri/tensor"
)

// GPT-2 (Radford et al. 2019): learned positions, layer norm before attention and MLP, one fused query-key-value
// projection, GELU. Its projections are stored [in, out].
func init() {
	architectures["gpt2"] = architecture{config: gpt2Config, build: gpt2Build, rename: gpt2Name}
}

func gpt2Config(raw []byte) (Config, error) {
	f := struct {
		Vocab   int      `json:"vocab_size"`
		Context int      `json:"n_positions"`
		Hidden  int      `json:"n_embd"`
		Layers  int      `json:"n_layer"`
		Heads   int      `json:"n_head"`
		Inner   *int     `json:"n_inner"`
		Eps     float64  `json:"layer_norm_epsilon"`
		Act     string   `json:"activation_function"`
		Tied    *bool    `json:"tie_word_embeddings"`
		EOS     tokenIDs `json:"eos_token_id"`
		Scale   *bool    `json:"scale_attn_weights"`
		ByLayer bool     `json:"scale_attn_by_inverse_layer_idx"`
		Cross   bool     `json:"add_cross_attention"`
	}{Vocab: 50257, Context: 1024, Hidden: 768, Layers: 12, Heads: 12, Eps: 1e-5, Act: "gelu_new"}
	if err := json.Unmarshal(raw, &f); err != nil {
		return Config{}, err
	}
	switch {
	case f.ByLayer:
		return Config{}, fmt.Errorf("scale_attn_by_inverse_layer_idx: true is not supported")
	case f.Cross:
		return Config{}, fmt.Errorf("add_cross_attention: true is not supported")
	case f.Act != "gelu_new" && f.Act != "gelu" && f.Act != "gelu_pytorch_tanh":
		return Config{}, fmt.Errorf("activation_function: %q is not supported (gelu_new, gelu_pytorch_tanh, gelu)", f.Act)
	}
	c := Config{Vocab: f.Vocab, Context: f.Context, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads, Inner: 4 * f.Hidden,
		NormEps: f.Eps, Gelu: f.Act, TiedHead: f.Tied == nil || *f.Tied, EOS: f.EOS, ScaleAttn: f.Scale == nil || *f.Scale}
	if f.Inner != nil {
		c.Inner = *f.Inner
	}
	return c, nil
}

// gpt2Name maps a checkpoint's tensor name to the one with the prefix that adapters use; "" drops a tensor.
func gpt2Name(name string) string {
	if strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias") {
		return "" // buffers of the causal mask in old checkpoints
	}
	if strings.HasPrefix(name, "transformer.") || strings.HasPrefix(name, "lm_head.") {
		return name
	}
	return "transformer." + name
}

func gpt2Build(m *Model, b *builder) {
	c := m.Config
	h, in := int64(c.Hidden), int64(c.Inner)
	m.tok = b.take("transformer.wte.weight", int64(c.Vocab), h)
	m.pos = b.take("transformer.wpe.weight", int64(c.Context), h)
	for i := range c.Layers {
		p := fmt.Sprintf("transformer.h.%d.", i)
		m.blocks = append(m.blocks, block{
			attnNorm: b.layerNorm(p+"ln_1", h),
			attn:     &fusedAttention{qkv: b.conv1D(p+"attn.c_attn", h, 3*h), out: b.conv1D(p+"attn.c_proj", h, h)},
			mlpNorm:  b.layerNorm(p+"ln_2", h),
			mlp:      &geluMLP{up: b.conv1D(p+"mlp.c_fc", h, in), down: b.conv1D(p+"mlp.c_proj", in, h), exact: c.Gelu == "gelu"},
		})
	}
	m.norm = b.layerNorm("transformer.ln_f", h)
	m.head = m.tok
	if !c.TiedHead {
		m.head = b.take("lm_head.weight", int64(c.Vocab), h)
	} else {
		b.drop("lm_head.weight")
	}
}

// fusedAttention computes query, key and value in one projection [H, 3H].
type fusedAttention struct{ qkv, out *Linear }

func (a *fusedAttention) project(s *tensor.Scope, x tensor.Tensor, heads int, adapter Adapter) (q, k, v tensor.Tensor) {
	shape := x.Shape() // [B, T, H]
	h := shape[2]
	all := a.qkv.apply(s, x, adapter)
	all = s.Permute(s.View(all, shape[0], shape[1], 3, int64(heads), h/int64(heads)), 2, 0, 3, 1, 4)
	parts := s.Unbind(all, 0)
	return parts[0], parts[1], parts[2]
}

func (a *fusedAttention) fused(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	return a.qkv.apply(s, x, adapter)
}

func (a *fusedAttention) output(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	return a.out.apply(s, x, adapter)
}

func (a *fusedAttention) linears() []*Linear { return []*Linear{a.qkv, a.out} }

type geluMLP struct {
	up, down *Linear
	exact    bool
}

func (m *geluMLP) apply(s *tensor.Scope, x tensor.Tensor, adapter Adapter) tensor.Tensor {
	y := m.up.apply(s, x, adapter)
	if m.exact {
		y = s.Gelu(y)
	} else {
		y = s.GeluTanh(y)
	}
	return m.down.apply(s, y, adapter)
}

func (m *geluMLP) linears() []*Linear { return []*Linear{m.up, m.down} }
