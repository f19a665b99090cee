package lm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"popri/internal/atomicfile"
	"popri/model/safetensors"
	"popri/model/tensor"
)

// Save writes the model in Hugging Face form: model.safetensors with elements of type d, and config.json.
func (m *Model) Save(dir string, d safetensors.DType) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	var tensors []safetensors.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			t := m.params[name]
			if name == headName {
				name = cmp.Or(architectures[m.Config.Type].head, name)
			}
			tensors = append(tensors, safetensors.FromFloat32As(name, t.Shape(), s.Float32s(t), d))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := safetensors.Write(filepath.Join(dir, "model.safetensors"), tensors,
		map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	types := map[safetensors.DType]string{safetensors.F32: "float32", safetensors.F16: "float16",
		safetensors.BF16: "bfloat16"}
	config := m.Config.fields()
	config["dtype"], config["torch_dtype"] = types[d], types[d]
	for name, v := range config { // transformers takes no integer for the caps of Gemma 2
		if cap, ok := v.(float64); ok && strings.HasSuffix(name, "softcapping") {
			config[name] = json.RawMessage(strconv.FormatFloat(cap, 'e', -1, 64))
		}
	}
	return atomicfile.WriteJSON(filepath.Join(dir, "config.json"), config)
}

// SaveLike is Save to a folder that has the tokenizer of another, and the other files that describe how its model is
// used. Files of weights, and what says how the other model was made, stay where they are.
func (m *Model) SaveLike(other, dir string, d safetensors.DType) error {
	entries, err := os.ReadDir(other)
	if err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lm: %w", err)
	}
	var names []string
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		is := func(ends string) bool { return strings.HasSuffix(name, ends) }
		describes := is(".json") || is(".jinja") || is(".model") || name == "merges.txt" || name == "vocab.txt"
		if !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0 || !describes || is(".index.json") ||
			is("provenance.json") || is("mixture.json") || is("adapter_config.json") {
			continue
		}
		names = append(names, e.Name())
	}
	const templates = "additional_chat_templates"
	further, _ := filepath.Glob(filepath.Join(other, templates, "*.jinja"))
	for _, path := range further {
		names = append(names, filepath.Join(templates, filepath.Base(path)))
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(other, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		}
		if err != nil {
			return fmt.Errorf("lm: %w", err)
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	generation := filepath.Join(dir, "generation_config.json")
	if _, err := os.Stat(generation); errors.Is(err, fs.ErrNotExist) && len(m.Config.EOS) > 0 && !m.Config.Classifies() {
		if err := atomicfile.WriteJSON(generation, map[string]any{"eos_token_id": m.Config.EOS}); err != nil {
			return err
		}
	}
	return m.Save(dir, d)
}

// fields is what config.json says of the architecture.
func (c Config) fields() map[string]any {
	config := architectures[c.Type].fields(c)
	maps.Copy(config, map[string]any{"model_type": c.Type, "vocab_size": c.Vocab, "tie_word_embeddings": c.TiedHead})
	if c.Classifies() {
		class := config["architectures"].([]string)[0]
		class = strings.TrimSuffix(strings.TrimSuffix(class, "LMHeadModel"), "ForCausalLM")
		if c.Type == "gemma3_text" { // Gemma3ForSequenceClassification reads pictures, too
			class = "Gemma3Text"
		}
		names, ids := map[string]string{}, map[string]int{}
		for i, label := range c.Labels {
			names[strconv.Itoa(i)], ids[label] = label, i
		}
		config["architectures"], config["id2label"], config["label2id"] = []string{class +
			"ForSequenceClassification"}, names, ids
	}
	switch len(c.EOS) {
	case 0:
		config["eos_token_id"] = nil // without the key, transformers ends texts at the class's own token
	case 1:
		config["eos_token_id"] = c.EOS[0]
		if c.Type == "gpt2" { // the same token begins and ends texts
			config["bos_token_id"] = c.EOS[0]
		}
	default:
		config["eos_token_id"] = c.EOS
	}
	return config
}
