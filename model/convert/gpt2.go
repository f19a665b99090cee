package convert

import "fmt"

// planGPT2 lists GPT-2's tensors. Its projections are [in, out] in a Hugging Face folder and [out, in] in the file.
func planGPT2(c *codec) []weight {
	hidden, heads := c.size("embedding_length", "n_embd", 0), c.size("attention.head_count", "n_head", 0)
	if hidden%heads != 0 {
		c.note(c.bad("embedding_length", "n_embd", "is %d, which is no multiple of the %d heads", hidden, heads))
	}
	if n := c.size("attention.head_count_kv", "n_head", heads); n != heads {
		c.note(c.bad("attention.head_count_kv", "n_head", "is %d, but GPT-2 has as many as heads (%d)", n, heads))
	}
	context, layers := c.size("context_length", "n_positions", 0), c.size("block_count", "n_layer", 0)
	inner := c.size("feed_forward_length", "n_inner", 4*hidden)
	c.number("attention.layer_norm_epsilon", "layer_norm_epsilon", 0)
	c.fixed("activation_function", "gelu_new", "gelu_pytorch_tanh")
	c.must("scale_attn_weights", true)
	c.config["model_type"], c.config["architectures"] = "gpt2", []string{"GPT2LMHeadModel"}
	c.config["attn_pdrop"], c.config["embd_pdrop"], c.config["resid_pdrop"] = 0, 0, 0
	c.ignore("rope.dimension_count") // some files have it, though there are no rotary positions

	t := &tensors{codec: c}
	h, in := int64(hidden), int64(inner)
	t.embedding("transformer.wte.weight", h)
	t.add("transformer.wpe.weight", positions, weight{}, int64(context), h)
	norm := func(name, source string) {
		t.add(name+".weight", source+".weight", weight{}, h)
		t.add(name+".bias", source+".bias", weight{}, h)
	}
	norm("transformer.ln_f", "output_norm")
	if !t.plausible(layers, "n_layer") {
		return nil
	}
	for i := range layers {
		to, from := fmt.Sprintf("transformer.h.%d.", i), fmt.Sprintf("blk.%d.", i)
		linear := func(name, source string, in, out int64) {
			t.add(to+name+".weight", from+source+".weight", weight{transpose: true}, in, out)
			t.add(to+name+".bias", from+source+".bias", weight{}, out)
		}
		norm(to+"ln_1", from+"attn_norm")
		norm(to+"ln_2", from+"ffn_norm")
		linear("attn.c_attn", "attn_qkv", h, 3*h)
		linear("attn.c_proj", "attn_output", h, h)
		linear("mlp.c_fc", "ffn_up", h, in)
		linear("mlp.c_proj", "ffn_down", in, h)
	}
	return t.list
}
