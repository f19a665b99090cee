package convert

func gemma3(c *codec, t *tensors) {
	c.gemma(t, gemma3Largest)
	c.number("rope.freq_base_swa", "rope_local_base_freq", 1e4)
	c.config["sliding_window_pattern"] = gemma3Pattern
	if !c.exports() {
		return
	}
	types := make([]string, c.config["num_hidden_layers"].(int))
	for i := range types {
		if types[i] = "sliding_attention"; (i+1)%gemma3Pattern == 0 {
			types[i] = "full_attention"
		}
	}
	c.must("layer_types", types)
}

func gemma2(c *codec, t *tensors) {
	c.gemma(t, gemma2Largest)
	c.number("attn_logit_softcapping", "attn_logit_softcapping", 50)
	c.number("final_logit_softcapping", "final_logit_softcapping", 30)
	c.must("tie_word_embeddings", true)
}

var gemmaNorms = append([]norm{{"input_layernorm", "attn_norm", stream},
	{"pre_feedforward_layernorm", "ffn_norm", stream}}, afterNorms...)

// gemma pairs what Gemma 2 and 3 have in common. Their files hold 1 + w of the norms' weights w, and do not say by the
// root of what scores are divided: the width of a head, except in the largest model, whose number of layers is largest.
func (c *codec) gemma(t *tensors, largest int) {
	delete(c.config, "hidden_act")
	c.config["hidden_activation"] = "gelu_pytorch_tanh"
	c.fixed("attention_bias", false)
	c.size("attention.sliding_window", "sliding_window", 0)
	scalar := c.config["head_dim"].(int)
	if c.config["num_hidden_layers"] == largest {
		scalar = c.config["hidden_size"].(int) / c.config["num_attention_heads"].(int)
	}
	c.fixed("query_pre_attn_scalar", float64(scalar))
	t.norm.shift = -1
}

// gemma3Pattern is the number of layers of which one attends to all tokens; the others are the numbers of layers of
// both models of 27B parameters.
const gemma3Pattern, gemma3Largest, gemma2Largest = 6, 62, 46
