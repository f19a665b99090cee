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
	"gemma3": {planGemma3},
	"llama":  {planLlama},
	"qwen2":  {planQwen2},
	"qwen3":  {planQwen3},
	"gpt2":   {planGPT2},
}

func planLlama(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "llama", []string{"LlamaForCausalLM"}
	attention, mlp := t.has("blk.0.attn_q.bias"), t.has("blk.0.ffn_gate.bias")
	config["attention_bias"], config["mlp_bias"] = attention, mlp
	if window := "attention.sliding_window"; r.has(window) {
		if n := r.size(window, 0); n < config["max_position_embeddings"].(int) {
			// Mistral is LLaMA with a window.
			config["model_type"], config["architectures"] = "mistral", []string{"MistralForCausalLM"}
			config["sliding_window"] = n
			if attention || mlp {
				r.note(r.file.Bad(r.key(window), "is %d in a model with biases, which is not supported", n))
			}
		}
	}
	t.decoder(config, biases{qkv: attention, out: attention, mlp: mlp}, true, llamaNorms)
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

// planGemma3 reads Gemma 3, whose file holds 1 + w of the norms' weights w.
func planGemma3(r *reader) (map[string]any, []weight, error) {
	config, t := r.rotaryDecoder()
	config["model_type"], config["architectures"] = "gemma3_text", []string{"Gemma3ForCausalLM"}
	delete(config, "hidden_act")
	config["hidden_activation"], config["attention_bias"] = "gelu_pytorch_tanh", false
	config["rope_theta"], config["rope_local_base_freq"] = r.number("rope.freq_base", 1e6), r.number("rope.freq_base_swa", 1e4)
	config["sliding_window"], config["sliding_window_pattern"] = r.size("attention.sliding_window", 0), gemma3Pattern
	// The file does not say by what scores are divided. It is the width of a head but in the model of 27B, which has this many layers.
	config["query_pre_attn_scalar"] = config["head_dim"]
	if layers := config["num_hidden_layers"].(int); layers == gemma3Largest {
		config["query_pre_attn_scalar"] = config["hidden_size"].(int) / config["num_attention_heads"].(int)
	}
	t.norm.shift = -1
	t.decoder(config, biases{}, false, append([]norm{{"input_layernorm", "attn_norm", false}, {"post_attention_layernorm", "post_attention_norm", false},
		{"pre_feedforward_layernorm", "ffn_norm", false}, {"post_feedforward_layernorm", "post_ffw_norm", false}}, headNorms...))
	return config, t.list, r.err
}

// gemma3Pattern is the number of layers of which one attends to all tokens, and gemma3Largest that of the layers of the model of
// 27B parameters.
const gemma3Pattern, gemma3Largest = 6, 62

// norm is a norm of a block: its name, and the one in the file.
type norm struct {
	name, source string
	head         bool // as wide as a head
}

var (
	llamaNorms = []norm{{"input_layernorm", "attn_norm", false}, {"post_attention_layernorm", "ffn_norm", false}}
	headNorms  = []norm{{"self_attn.q_norm", "attn_q_norm", true}, {"self_attn.k_norm", "attn_k_norm", true}}
)

// rotaryDecoder reads what LLaMA and its descendants have in common.
func (r *reader) rotaryDecoder() (map[string]any, *tensors) {
	hidden, heads := r.size("embedding_length", 0), r.size("attention.head_count", 0)
	if !r.has("attention.key_length") && hidden%heads != 0 {
		r.note(r.file.Bad(r.key("embedding_length"), "is %d, which is no multiple of the %d heads", hidden, heads))
	}
	dim := r.size("attention.key_length", max(1, hidden/heads))
	if v := r.size("attention.value_length", dim); v != dim {
		r.note(r.file.Bad(r.key("attention.value_length"), "is %d, but queries and keys have %d, which is not supported",
			v, dim))
	}
	if n := r.size("rope.dimension_count", dim); n != dim || dim%2 != 0 {
		r.note(r.file.Bad(r.key("rope.dimension_count"), "is %d of a head's %d: it must be all of them and even", n, dim))
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
	config["rope_scaling"] = r.ropeScaling(config)
	if causal, ok, err := r.file.Bool(r.key("attention.causal")); err != nil || ok && !causal {
		r.note(err)
		r.note(r.file.Bad(r.key("attention.causal"), "is false, which is not supported"))
	}
	r.ignore("vocab_size") // the embedding has as many rows
	return config, &tensors{r: r}
}

// biases says which projections have them.
type biases struct{ qkv, out, mlp bool }

// decoder lists the tensors of LLaMA and its descendants. permuted says that rotary pairs lie side by side in the file; norms are
// those of each block.
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
			width := h
			if n.head {
				width = d
			}
			t.add(to+n.name+".weight", from+n.source+".weight", t.norm, width)
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
