package convert

// planGemma3 reads Gemma 3.
func planGemma3(r *reader) (map[string]any, []weight, error) {
	config, t := r.gemma()
	config["model_type"], config["architectures"] = "gemma3_text", []string{"Gemma3ForCausalLM"}
	config["rope_theta"], config["rope_local_base_freq"] = r.number("rope.freq_base",
		1e6), r.number("rope.freq_base_swa", 1e4)
	config["sliding_window_pattern"] = gemma3Pattern
	config["query_pre_attn_scalar"] = r.queryScale(config, gemma3Largest)
	t.decoder(config, biases{}, false, append(gemmaNorms, headNorms...))
	return config, t.list, r.err
}

// planGemma2 reads Gemma 2.
func planGemma2(r *reader) (map[string]any, []weight, error) {
	config, t := r.gemma()
	config["model_type"], config["architectures"] = "gemma2", []string{"Gemma2ForCausalLM"}
	config["attn_logit_softcapping"], config["final_logit_softcapping"] = r.number("attn_logit_softcapping",
		50), r.number("final_logit_softcapping", 30)
	config["query_pre_attn_scalar"] = r.queryScale(config, gemma2Largest)
	t.decoder(config, biases{}, false, gemmaNorms)
	return config, t.list, r.err
}

var gemmaNorms = append([]norm{{"input_layernorm", "attn_norm", stream},
	{"pre_feedforward_layernorm", "ffn_norm", stream}}, afterNorms...)

// gemma reads what Gemma 2 and 3 have in common. Their files hold 1 + w of the norms' weights w.
func (r *reader) gemma() (map[string]any, *tensors) {
	config, t := r.rotaryDecoder()
	delete(config, "hidden_act")
	config["hidden_activation"], config["attention_bias"] = "gelu_pytorch_tanh", false
	config["sliding_window"] = r.size("attention.sliding_window", 0)
	t.norm.shift = -1
	return config, t
}

// queryScale is by the root of what scores are divided, which the file does not say: the width of a head, but in the
// largest model, which has so many layers.
func (r *reader) queryScale(config map[string]any, largest int) int {
	if config["num_hidden_layers"].(int) == largest {
		return config["hidden_size"].(int) / config["num_attention_heads"].(int)
	}
	return config["head_dim"].(int)
}

// gemma3Pattern is the number of layers of which one attends to all tokens; the others are the numbers of layers of
// both models of 27B parameters.
const gemma3Pattern, gemma3Largest, gemma2Largest = 6, 62, 46
