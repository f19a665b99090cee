package convert

import (
	"cmp"
	"fmt"
)

// architecture is one value of general.architecture.
type architecture struct {
	models []string // the values of model_type that are exported as it
	// plan pairs metadata and fields of config.json, and lists the weights.
	plan func(c *codec) []weight
}

// architectures are those that are known, by general.architecture. The norms of OLMo 2 follow attention and MLP; OLMo 3,
// whose files have the same name, has a window, which is refused.
var architectures = map[string]architecture{
	"gpt2": {[]string{"gpt2"}, planGPT2},
	"llama": decoder{model: "llama", class: "Llama", permuted: true, ownBiases: true,
		more: mistral}.architecture("mistral"),
	"qwen2": decoder{model: "qwen2", class: "Qwen2", biases: biases{qkv: true}, more: qwen2}.architecture(),
	"qwen3": decoder{model: "qwen3", class: "Qwen3", norms: append(llamaNorms, headNorms...),
		more: qwen3}.architecture(),
	"smollm3": decoder{model: "smollm3", class: "SmolLM3", permuted: true, ownBiases: true,
		more: smolLM3}.architecture(),
	"granite": decoder{model: "granite", class: "Granite", permuted: true, ownBiases: true,
		more: granite}.architecture(),
	"olmo2": decoder{model: "olmo2", class: "Olmo2", norms: append(wideNorms, afterNorms...),
		more: olmo2}.architecture(),
	"phi3": decoder{model: "phi3", class: "Phi3", biases: biases{joined: true}, windowed: true,
		more: phi3}.architecture(),
	"gemma2": decoder{model: "gemma2", class: "Gemma2", norms: gemmaNorms, windowed: true,
		more: gemma2}.architecture(),
	"gemma3": decoder{model: "gemma3_text", class: "Gemma3", norms: append(gemmaNorms, headNorms...), theta: 1e6,
		windowed: true, more: gemma3}.architecture(),
}

// decoder is how a descendant of LLaMA differs from it.
type decoder struct {
	model, class string  // what config.json calls it
	permuted     bool    // rotary pairs are side by side in the file
	biases       biases  // which projections have them
	ownBiases    bool    // each file's first block says which
	norms        []norm  // of each block; nil means LLaMA's
	theta        float64 // rotary base where the file has none; 0 means LLaMA's
	windowed     bool    // the file states the window; of others, an export cuts the context to it, as llama.cpp has none
	more         func(c *codec, t *tensors)
}

func (d decoder) architecture(also ...string) architecture {
	return architecture{append(also, d.model), d.plan}
}

func (d decoder) plan(c *codec) []weight {
	if d.windowed && c.exports() {
		c.folder.uncut(c.config)
	}
	c.rotaryDecoder(cmp.Or(d.theta, 10000))
	t := &tensors{codec: c}
	c.config["model_type"], c.config["architectures"] = d.model, []string{d.class + "ForCausalLM"}
	if d.ownBiases {
		d.biases = t.biases()
	}
	if d.norms == nil {
		d.norms = llamaNorms
	}
	d.more(c, t)
	if c.err == nil {
		t.decoder(d)
	}
	return t.list
}

// mistral is LLaMA with a window.
func mistral(c *codec, _ *tensors) {
	window := "attention.sliding_window"
	if !c.has(window, "sliding_window") {
		return
	}
	n := c.sizeOf(window, 0)
	if n >= c.config["max_position_embeddings"].(int) {
		return
	}
	c.config["model_type"], c.config["architectures"] = "mistral", []string{"MistralForCausalLM"}
	c.config["sliding_window"] = n
	if c.config["attention_bias"] == true || c.config["mlp_bias"] == true {
		c.note(c.bad(window, "sliding_window", "is %d in a model with biases, which is not supported", n))
	}
}

func qwen2(c *codec, _ *tensors) {
	c.config["use_sliding_window"] = false
	c.square()
}

func olmo2(c *codec, _ *tensors) {
	c.fixed("attention_bias", false)
	c.must("tie_word_embeddings", false)
	c.square()
}

func qwen3(c *codec, _ *tensors) {
	c.config["use_sliding_window"] = false
	c.fixed("attention_bias", false)
}

// norm is a norm of a block: its name, and the one in the file.
type norm struct {
	name, source string
	of           width
}

// width is what a norm is as wide as.
type width int

const (
	stream  width = iota // the residual stream
	head                 // a head
	queries              // all heads' queries
	keys                 // all heads' keys
)

var (
	llamaNorms = []norm{{"input_layernorm", "attn_norm", stream}, {"post_attention_layernorm", "ffn_norm", stream}}
	headNorms  = []norm{{"self_attn.q_norm", "attn_q_norm", head}, {"self_attn.k_norm", "attn_k_norm", head}}
	wideNorms  = []norm{{"self_attn.q_norm", "attn_q_norm", queries}, {"self_attn.k_norm", "attn_k_norm", keys}}
	afterNorms = []norm{{"post_attention_layernorm", "post_attention_norm", stream},
		{"post_feedforward_layernorm", "post_ffw_norm", stream}}
)

// rotaryDecoder pairs what LLaMA and its descendants have in common; theta is the rotary base where the file has none.
func (c *codec) rotaryDecoder(theta float64) {
	hidden := c.size("embedding_length", "hidden_size", 0)
	heads := c.size("attention.head_count", "num_attention_heads", 0)
	if !c.has("attention.key_length", "head_dim") && hidden%heads != 0 {
		c.note(c.bad("embedding_length", "hidden_size", "is %d, which is no multiple of the %d heads", hidden, heads))
	}
	dim := c.size("attention.key_length", "head_dim", max(1, hidden/heads))
	if v := c.sizeOf("attention.value_length", dim); v != dim {
		c.note(c.bad("attention.value_length", "head_dim", "is %d, but queries and keys have %d, which is not supported", v, dim))
	}
	turned := dim
	if part, ok := c.config["partial_rotary_factor"].(float64); ok { // in an export
		turned = int(float64(dim) * part)
	}
	turned = c.sizeOf("rope.dimension_count", turned)
	if turned != dim && c.prefix != partial || turned > dim || turned%2 != 0 {
		c.note(c.bad("rope.dimension_count", "partial_rotary_factor",
			"is %d of a head's %d: it must be all of them and even", turned, dim))
	}
	if kv := c.size("attention.head_count_kv", "num_key_value_heads", heads); heads%kv != 0 {
		c.note(c.bad("attention.head_count_kv", "num_key_value_heads", "is %d, of which the %d heads are no multiple", kv, heads))
	}
	c.size("block_count", "num_hidden_layers", 0)
	c.size("feed_forward_length", "intermediate_size", 0)
	c.size("context_length", "max_position_embeddings", 0)
	c.number("attention.layer_norm_rms_epsilon", "rms_norm_eps", 0)
	c.number("rope.freq_base", "rope_theta", theta)
	c.config["hidden_act"], c.config["attention_dropout"] = "silu", 0
	if c.prefix == partial {
		c.config["partial_rotary_factor"] = float64(turned) / float64(dim)
	}
	c.scaling(turned)
}

// biases says which projections have them. joined says that queries, keys and values are one projection, without
// biases, and gate and up another, as in Phi-3.
type biases struct{ qkv, out, mlp, joined bool }

// biases are those that the first block of LLaMA or a near relative has.
func (t *tensors) biases() biases {
	attention := t.flag("attention_bias", t.stored("blk.0.attn_q.bias"))
	mlp := t.flag("mlp_bias", t.stored("blk.0.ffn_gate.bias"))
	return biases{qkv: attention, out: attention, mlp: mlp}
}

// decoder lists the tensors of LLaMA or a descendant.
func (t *tensors) decoder(is decoder) {
	size := func(key string) int64 { return int64(t.config[key].(int)) }
	h, in, d := size("hidden_size"), size("intermediate_size"), size("head_dim")
	q, kv := d*size("num_attention_heads"), d*size("num_key_value_heads")
	rotary := weight{}
	if is.permuted {
		rotary.rotary = d
	}
	t.embedding("model.embed_tokens.weight", h)
	t.add("model.norm.weight", "output_norm.weight", t.norm, h)
	layers := t.config["num_hidden_layers"].(int)
	if !t.plausible(layers, "num_hidden_layers") {
		return
	}
	for i := range layers {
		to, from := fmt.Sprintf("model.layers.%d.", i), fmt.Sprintf("blk.%d.", i)
		linear := func(name, source string, w weight, out, in int64, bias bool) {
			t.add(to+name+".weight", from+source+".weight", w, out, in)
			if bias {
				t.add(to+name+".bias", from+source+".bias", w, out)
			}
		}
		for _, n := range is.norms {
			t.add(to+n.name+".weight", from+n.source+".weight", t.norm,
				map[width]int64{stream: h, head: d, queries: q, keys: kv}[n.of])
		}
		if is.biases.joined {
			linear("self_attn.qkv_proj", "attn_qkv", weight{}, q+2*kv, h, false)
			linear("self_attn.o_proj", "attn_output", weight{}, h, q, false)
			linear("mlp.gate_up_proj", "ffn_up", weight{}, 2*in, h, false)
			linear("mlp.down_proj", "ffn_down", weight{}, h, in, false)
			continue
		}
		linear("self_attn.q_proj", "attn_q", rotary, q, h, is.biases.qkv)
		linear("self_attn.k_proj", "attn_k", rotary, kv, h, is.biases.qkv)
		linear("self_attn.v_proj", "attn_v", weight{}, kv, h, is.biases.qkv)
		linear("self_attn.o_proj", "attn_output", weight{}, h, q, is.biases.out)
		linear("mlp.gate_proj", "ffn_gate", weight{}, in, h, is.biases.mlp)
		linear("mlp.up_proj", "ffn_up", weight{}, in, h, is.biases.mlp)
		linear("mlp.down_proj", "ffn_down", weight{}, h, in, is.biases.mlp)
	}
}

// plausible notes a number of layers that the weights cannot have, before a list of their tensors is made.
func (t *tensors) plausible(layers int, field string) bool {
	n := 0
	if t.exports() {
		n = len(t.folder.Tensors)
	} else {
		n = len(t.file.Tensors())
	}
	if layers > n {
		t.note(t.bad("block_count", field, "is %d, but there are %d tensors in all", layers, n))
	}
	return layers <= n
}

// embedding takes the token embedding and, where there is one of its own, the output projection.
func (t *tensors) embedding(name string, hidden int64) {
	vocabulary := int64(1)
	if t.exports() {
		vocabulary = int64(t.size("vocab_size", "vocab_size", 0))
	} else if x, ok := t.file.Tensor(embedding); ok && len(x.Shape) == 2 {
		vocabulary = x.Shape[0]
	}
	t.ignore("vocab_size") // the embedding has as many rows
	if vocabulary > largest {
		t.note(t.file.BadTensor(embedding, "has %d rows, at most %d are supported", vocabulary, largest))
	}
	t.add(name, embedding, weight{}, vocabulary, hidden)
	t.config["vocab_size"] = int(vocabulary)
	if !t.flag("tie_word_embeddings", !t.stored(output)) {
		t.add("lm_head.weight", output, weight{}, vocabulary, hidden)
	}
}
