package convert

import "fmt"

// planGPT2 lists GPT-2's tensors. Its projections are [in, out] in a Hugging Face folder and [out, in] in the file.
func planGPT2(r *reader) (map[string]any, []weight, error) {
	hidden, heads := r.size("embedding_length", 0), r.size("attention.head_count", 0)
	if hidden%heads != 0 {
		r.note(r.file.Bad(r.key("embedding_length"), "is %d, which is no multiple of the %d heads", hidden, heads))
	}
	if n := r.size("attention.head_count_kv", heads); n != heads {
		r.note(r.file.Bad(r.key("attention.head_count_kv"), "is %d, but GPT-2 has as many as heads (%d)", n, heads))
	}
	context, layers := r.size("context_length", 0), r.size("block_count", 0)
	inner := r.size("feed_forward_length", 4*hidden)
	config := map[string]any{
		"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"},
		"n_positions": context, "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": inner,
		"layer_norm_epsilon":  r.number("attention.layer_norm_epsilon", 0),
		"activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
	}
	r.ignore("vocab_size", "rope.dimension_count") // some files have the latter, though there are no rotary positions

	t := &tensors{r: r}
	h, in := int64(hidden), int64(inner)
	t.embedding(config, "transformer.wte.weight", h)
	t.add("transformer.wpe.weight", "position_embd.weight", weight{}, int64(context), h)
	norm := func(name, source string) {
		t.add(name+".weight", source+".weight", weight{}, h)
		t.add(name+".bias", source+".bias", weight{}, h)
	}
	norm("transformer.ln_f", "output_norm")
	if !t.plausible(layers) {
		return config, nil, r.err
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
	return config, t.list, r.err
}
