package convert

import (
	"fmt"
)

// architecture turns metadata into the fields of config.json and the list of weights. Mistakes are noted in the reader.
type architecture struct {
	plan func(r *reader) (config map[string]any, weights []weight, err error)
}

// architectures are those that are read, by general.architecture.
var architectures = map[string]architecture{
	"gemma2":  {planGemma2},
	"gemma3":  {planGemma3},
	"gpt2":    {planGPT2},
	"granite": {planGranite},
	"llama":   {planLlama},
	"olmo2":   {planOlmo2},
	"phi3":    {planPhi3},
	"qwen2":   {planQwen2},
	"qwen3":   {planQwen3},
	"smollm3": {planSmolLM3},
}

func planLlama(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "llama", []string{"LlamaForCausalLM"}
	with := t.biases(config)
	if window := "attention.sliding_window"; r.has(window) {
		if n := r.size(window, 0); n < config["max_position_embeddings"].(int) {
			// Mistral is LLaMA with a window.
			config["model_type"], config["architectures"] = "mistral", []string{"MistralForCausalLM"}
			config["sliding_window"] = n
			if with.qkv || with.mlp {
				r.note(r.file.Bad(r.key(window), "is %d in a model with biases, which is not supported", n))
			}
		}
	}
	t.decoder(config, with, true, llamaNorms)
	return config, t.list, r.err
}

func planQwen2(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "qwen2", []string{"Qwen2ForCausalLM"}
	config["use_sliding_window"] = false
	t.decoder(config, biases{qkv: true}, false, llamaNorms)
	return config, t.list, r.err
}

func planQwen3(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "qwen3", []string{"Qwen3ForCausalLM"}
	config["use_sliding_window"], config["attention_bias"] = false, false
	t.decoder(config, biases{}, false, append(llamaNorms, headNorms...))
	return config, t.list, r.err
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

// decoder lists the tensors of LLaMA and its descendants. permuted says that rotary pairs lie side by side in the file;
// norms are those of each block.
func (t *tensors) decoder(config map[string]any, with biases, permuted bool, norms []norm) {
	size := func(key string) int64 { return int64(config[key].(int)) }
	h, in, d := size("hidden_size"), size("intermediate_size"), size("head_dim")
	q, kv := d*size("num_attention_heads"), d*size("num_key_value_heads")
	rotary := weight{}
	if permuted {
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
		for _, n := range norms {
			t.add(to+n.name+".weight", from+n.source+".weight", t.norm,
				map[width]int64{stream: h, head: d, queries: q, keys: kv}[n.of])
		}
		if with.joined {
			linear("self_attn.qkv_proj", "attn_qkv", weight{}, q+2*kv, h, false)
			linear("self_attn.o_proj", "attn_output", weight{}, h, q, false)
			linear("mlp.gate_up_proj", "ffn_up", weight{}, 2*in, h, false)
			linear("mlp.down_proj", "ffn_down", weight{}, h, in, false)
			continue
		}
		linear("self_attn.q_proj", "attn_q", rotary, q, h, with.qkv)
		linear("self_attn.k_proj", "attn_k", rotary, kv, h, with.qkv)
		linear("self_attn.v_proj", "attn_v", weight{}, kv, h, with.qkv)
		linear("self_attn.o_proj", "attn_output", weight{}, h, q, with.out)
		linear("mlp.gate_proj", "ffn_gate", weight{}, in, h, with.mlp)
		linear("mlp.up_proj", "ffn_up", weight{}, in, h, with.mlp)
		linear("mlp.down_proj", "ffn_down", weight{}, h, in, with.mlp)
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
