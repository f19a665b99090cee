package embedding_test

import (
	"fmt"
	"testing"
)

// t5Folder writes the folder of a sentence-T5 with random weights: its encoder, a dense layer, unit length.
func t5Folder(t testing.TB) string {
	t.Helper()
	return t5(t, "relu")
}

// t5GatedFolder writes the folder of a T5 1.1, whose inner layers have a gate.
func t5GatedFolder(t testing.TB) string {
	t.Helper()
	return t5(t, "gated-gelu")
}

func t5(t testing.TB, act string) string {
	t.Helper()
	const h, heads, head, in = 48, 2, 32, 64
	f := newFolder(t)
	vocab := f.unigram()
	f.write("config.json", object{"model_type": "t5", "vocab_size": vocab, "d_model": h, "d_kv": head, "d_ff": in,
		"num_layers": 2, "num_heads": heads, "relative_attention_num_buckets": 32, "layer_norm_epsilon": 1e-6,
		"feed_forward_proj": act, "is_encoder_decoder": true, "n_positions": 64})
	f.write("modules.json", []any{
		object{"type": "a.Transformer", "path": ""}, object{"type": "a.Pooling", "path": "1_Pooling"},
		object{"type": "a.Dense", "path": "2_Dense"}, object{"type": "a.Normalize", "path": "3_Normalize"}})
	f.write("1_Pooling/config.json", object{"word_embedding_dimension": h, "pooling_mode_mean_tokens": true})
	f.write("2_Dense/config.json", object{"in_features": h, "out_features": 40, "bias": false,
		"activation_function": "torch.nn.modules.linear.Identity"})
	f.random("linear.weight", 0.2, 0, 40, h)
	f.weights("2_Dense")
	f.random("shared.weight", 1, 0, int64(vocab), h)
	f.random("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 1, 0, 32, heads)
	for i := range 2 {
		p := fmt.Sprintf("encoder.block.%d.layer.", i)
		for _, name := range []string{"q", "k", "v"} {
			f.random(p+"0.SelfAttention."+name+".weight", 0.1, 0, heads*head, h)
		}
		f.random(p+"0.SelfAttention.o.weight", 0.1, 0, h, heads*head)
		f.random(p+"0.layer_norm.weight", 0.1, 1, h)
		names := []string{"wi"}
		if act != "relu" {
			names = []string{"wi_0", "wi_1"}
		}
		for _, name := range names {
			f.random(p+"1.DenseReluDense."+name+".weight", 0.1, 0, in, h)
		}
		f.random(p+"1.DenseReluDense.wo.weight", 0.1, 0, h, in)
		f.random(p+"1.layer_norm.weight", 0.1, 1, h)
	}
	f.random("encoder.final_layer_norm.weight", 0.1, 1, h)
	f.weights("")
	return f.dir
}
