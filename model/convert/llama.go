package convert

import "fmt"

// architecture turns metadata into the fields of config.json and the list of weights. Mistakes are noted in the reader.
type architecture func(r *reader) (config map[string]any, weights []weight, err error)

// architectures are those that are read, by general.architecture. The norms of OLMo 2 follow attention and MLP; OLMo 3,
// whose files have the same name, has a window, which is refused.
var architectures = map[string]architecture{
	"gpt2":    planGPT2,
	"llama":   decoder{model: "llama", class: "Llama", permuted: true, ownBiases: true, more: mistral}.plan,
	"qwen2":   decoder{model: "qwen2", class: "Qwen2", biases: biases{qkv: true}, more: noWindow}.plan,
	"qwen3":   decoder{model: "qwen3", class: "Qwen3", norms: append(llamaNorms, headNorms...), more: qwen3}.plan,
	"smollm3": decoder{model: "smollm3", class: "SmolLM3", permuted: true, ownBiases: true, more: smolLM3}.plan,
	"granite": decoder{model: "granite", class: "Granite", permuted: true, ownBiases: true, more: granite}.plan,
	"olmo2":   decoder{model: "olmo2", class: "Olmo2", norms: append(wideNorms, afterNorms...), more: noBiases}.plan,
	"phi3":    decoder{model: "phi3", class: "Phi3", biases: biases{joined: true}, more: phi3}.plan,
	"gemma2":  decoder{model: "gemma2", class: "Gemma2", norms: gemmaNorms, more: gemma2}.plan,
	"gemma3": decoder{model: "gemma3_text", class: "Gemma3", norms: append(gemmaNorms, headNorms...),
		more: gemma3}.plan,
}

// decoder is how a descendant of LLaMA differs from it.
type decoder struct {
	model, class string // what config.json calls it
	permuted     bool   // rotary pairs lie side by side in the file
	biases       biases // which projections have them
	ownBiases    bool   // each file's first block says which
	norms        []norm // of each block; nil means LLaMA's
	more         func(r *reader, config map[string]any, t *tensors)
}

func (d decoder) plan(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = d.model, []string{d.class + "ForCausalLM"}
	if d.ownBiases {
		d.biases = t.biases(config)
	}
	if d.norms == nil {
		d.norms = llamaNorms
	}
	d.more(r, config, t)
	t.decoder(config, d)
	return config, t.list, r.err
}

// mistral is LLaMA with a window.
func mistral(r *reader, config map[string]any, _ *tensors) {
	window := "attention.sliding_window"
	if !r.has(window) {
		return
	}
	n := r.size(window, 0)
	if n >= config["max_position_embeddings"].(int) {
		return
	}
	config["model_type"], config["architectures"] = "mistral", []string{"MistralForCausalLM"}
	config["sliding_window"] = n
	if config["attention_bias"] == true || config["mlp_bias"] == true {
		r.note(r.file.Bad(r.key(window), "is %d in a model with biases, which is not supported", n))
	}
}

// noWindow is all that Qwen2's config.json says besides.
func noWindow(_ *reader, config map[string]any, _ *tensors) { config["use_sliding_window"] = false }

// noBiases is all that OLMo 2's config.json says besides.
func noBiases(_ *reader, config map[string]any, _ *tensors) { config["attention_bias"] = false }

func qwen3(_ *reader, config map[string]any, _ *tensors) {
	config["use_sliding_window"], config["attention_bias"] = false, false
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

// rotaryDecoder reads what LLaMA and its descendants have in common.
func (r *reader) rotaryDecoder() (map[string]any, *tensors) {
	hidden, heads := r.size("embedding_length", 0), r.size("attention.head_count", 0)
	if !r.has("attention.key_length") && hidden%heads != 0 {
		r.note(r.file.Bad(r.key("embedding_length"), "is %d, which is no multiple of the %d heads", hidden, heads))
	}
	dim := r.size("attention.key_length", max(1, hidden/heads))
	if v := r.size("attention.value_length", dim); v != dim {
		r.note(r.file.Bad(r.key("attention.value_length"),
			"is %d, but queries and keys have %d, which is not supported", v, dim))
	}
	turned := r.size("rope.dimension_count", dim)
	if turned != dim && r.prefix != partial || turned > dim || turned%2 != 0 {
		r.note(r.file.Bad(r.key("rope.dimension_count"), "is %d of a head's %d: it must be all of them and even",
			turned, dim))
	}
	kv := r.size("attention.head_count_kv", heads)
	if heads%kv != 0 {
		r.note(r.file.Bad(r.key("attention.head_count_kv"), "is %d, of which the %d heads are no multiple", kv, heads))
	}
	config := map[string]any{
		"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim,
		"num_hidden_layers": r.size("block_count", 0), "intermediate_size": r.size("feed_forward_length", 0),
		"max_position_embeddings": r.size("context_length", 0),
		"rms_norm_eps":            r.number("attention.layer_norm_rms_epsilon", 0),
		"hidden_act":              "silu",
		"rope_theta":              r.number("rope.freq_base", 10000),
		"attention_dropout":       0,
	}
	if r.prefix == partial {
		config["partial_rotary_factor"] = float64(turned) / float64(dim)
		config["rope_scaling"] = r.longRope(config, turned)
	} else {
		config["rope_scaling"] = r.ropeScaling(config)
	}
	if causal, ok, err := r.file.Bool(r.key("attention.causal")); err != nil || ok && !causal {
		r.note(err)
		r.note(r.file.Bad(r.key("attention.causal"), "is false, which is not supported"))
	}
	r.ignore("vocab_size") // the embedding has as many rows
	return config, &tensors{r: r}
}

// biases says which projections have them. joined says that queries, keys and values are one projection, without
// biases, and gate and up another, as in Phi-3.
type biases struct{ qkv, out, mlp, joined bool }

// biases are those that the first block of LLaMA or a near relative has.
func (t *tensors) biases(config map[string]any) biases {
	attention, mlp := t.has("blk.0.attn_q.bias"), t.has("blk.0.ffn_gate.bias")
	config["attention_bias"], config["mlp_bias"] = attention, mlp
	return biases{qkv: attention, out: attention, mlp: mlp}
}

// decoder lists the tensors of LLaMA or a descendant.
func (t *tensors) decoder(config map[string]any, is decoder) {
	size := func(key string) int64 { return int64(config[key].(int)) }
	h, in, d := size("hidden_size"), size("intermediate_size"), size("head_dim")
	q, kv := d*size("num_attention_heads"), d*size("num_key_value_heads")
	rotary := weight{}
	if is.permuted {
		rotary.rotary = d
	}
	t.embedding(config, "model.embed_tokens.weight", h)
	t.add("model.norm.weight", "output_norm.weight", t.norm, h)
	layers := config["num_hidden_layers"].(int)
	if !t.plausible(layers) {
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

// plausible notes a number of layers that the file cannot have, before a list of their tensors is made.
func (t *tensors) plausible(layers int) bool {
	if n := len(t.r.file.Tensors()); layers > n {
		t.r.note(t.r.file.Bad(t.r.key("block_count"), "is %d, but the file has %d tensors in all", layers, n))
		return false
	}
	return true
}

// embedding takes the token embedding and, where the file has one of its own, the output projection.
func (t *tensors) embedding(config map[string]any, name string, hidden int64) {
	const source, head = "token_embd.weight", "output.weight"
	vocabulary := int64(1)
	if x, ok := t.r.file.Tensor(source); ok && len(x.Shape) == 2 {
		vocabulary = x.Shape[0]
	}
	if vocabulary > largest {
		t.r.note(t.r.file.BadTensor(source, "has %d rows, at most %d are supported", vocabulary, largest))
	}
	t.add(name, source, weight{}, vocabulary, hidden)
	config["vocab_size"], config["tie_word_embeddings"] = int(vocabulary), !t.has(head)
	if t.has(head) {
		t.add("lm_head.weight", head, weight{}, vocabulary, hidden)
	}
}
