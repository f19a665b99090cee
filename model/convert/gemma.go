package convert

func gemma3(r *reader, config map[string]any, t *tensors) {
	r.gemma(config, t, gemma3Largest)
	config["rope_theta"] = r.number("rope.freq_base", 1e6)
	config["rope_local_base_freq"] = r.number("rope.freq_base_swa", 1e4)
	config["sliding_window_pattern"] = gemma3Pattern
}

func gemma2(r *reader, config map[string]any, t *tensors) {
	r.gemma(config, t, gemma2Largest)
	config["attn_logit_softcapping"] = r.number("attn_logit_softcapping", 50)
	config["final_logit_softcapping"] = r.number("final_logit_softcapping", 30)
}

var gemmaNorms = append([]norm{{"input_layernorm", "attn_norm", stream},
	{"pre_feedforward_layernorm", "ffn_norm", stream}}, afterNorms...)

// gemma reads what Gemma 2 and 3 have in common. Their files hold 1 + w of the norms' weights w, and do not say by the
// root of what scores are divided: the width of a head, but in the largest model, which has so many layers.
func (r *reader) gemma(config map[string]any, t *tensors, largest int) {
	delete(config, "hidden_act")
	config["hidden_activation"], config["attention_bias"] = "gelu_pytorch_tanh", false
	config["sliding_window"] = r.size("attention.sliding_window", 0)
	config["query_pre_attn_scalar"] = config["head_dim"]
	if config["num_hidden_layers"].(int) == largest {
		config["query_pre_attn_scalar"] = config["hidden_size"].(int) / config["num_attention_heads"].(int)
	}
	t.norm.shift = -1
}

// gemma3Pattern is the number of layers of which one attends to all tokens; the others are the numbers of layers of
// both models of 27B parameters.
const gemma3Pattern, gemma3Largest, gemma2Largest = 6, 62, 46
