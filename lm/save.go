package lm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"popri/internal/atomicfile"
	"popri/safetensors"
	"popri/tensor"
)

func save(m *Model, dir string, d safetensors.DType) error {
	if m.Config.Type != "gpt2" {
		return fmt.Errorf("lm: saving a %s model is not supported", m.Config.Type)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	var tensors []safetensors.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			t := m.params[name]
			tensors = append(tensors, safetensors.FromFloat32As(name, t.Shape(), s.Float32s(t), d))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := safetensors.Write(filepath.Join(dir, "model.safetensors"), tensors, map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	c := m.Config
	types := map[safetensors.DType]string{safetensors.F32: "float32", safetensors.F16: "float16", safetensors.BF16: "bfloat16"}
	config := map[string]any{
		"architectures": []string{"GPT2LMHeadModel"}, "model_type": "gpt2", "dtype": types[d],
		"vocab_size": c.Vocab, "n_positions": c.Context, "n_embd": c.Hidden, "n_layer": c.Layers, "n_head": c.Heads, "n_inner": c.Inner,
		"layer_norm_epsilon": c.NormEps, "activation_function": c.Gelu, "tie_word_embeddings": c.TiedHead, "scale_attn_weights": c.ScaleAttn,
		"attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
	}
	if len(c.EOS) > 0 {
		config["eos_token_id"], config["bos_token_id"] = c.EOS[0], c.EOS[0]
	}
	b, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "config.json"), append(b, '\n'))
}
