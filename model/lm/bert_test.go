package lm

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/model/safetensors"
	"popri/testkit/testfile"
)

// Folders from the hub hold a pooler, copies of the head and names of earlier versions.
func TestBERTForms(t *testing.T) {
	row := []int32{1, 2, 3, 50, 96, 4, 7}
	k, m := newCheckpoint(t, every()["bert"])
	want := logitsOf(t, m, row)
	add := func(name string, shape ...int64) {
		n := int64(1)
		for _, side := range shape {
			n *= side
		}
		k.tensors[name] = safetensors.FromFloat32(name, shape, make([]float32, n))
	}
	for name, x := range maps.Clone(k.tensors) {
		delete(k.tensors, name)
		x.Name = strings.TrimPrefix(name, "bert.")
		x.Name = strings.Replace(x.Name, "LayerNorm.weight", "LayerNorm.gamma", 1)
		x.Name = strings.Replace(x.Name, "LayerNorm.bias", "LayerNorm.beta", 1)
		k.tensors[x.Name] = x
	}
	add("bert.pooler.dense.weight", 48, 48)
	add("cls.seq_relationship.bias", 2)
	add("embeddings.position_ids", 1, 64)
	k.write(0)
	got, err := Load(k.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Free()
	sameValues(t, "another form", logitsOf(t, got, row), want, 0)
	if _, err := got.Generate(t.Context(), [][]int32{{1}}, 1, SampleOptions{MaxNewTokens: 1}); err == nil {
		t.Error("BERT writes text")
	}

	// The order of tokens after a position changes nothing before it: the model is causal.
	rotated := slices.Clone(row)
	slices.Reverse(rotated[3:])
	now := logitsOf(t, got, rotated)
	v := got.Config.Vocab
	sameValues(t, "other tokens later", now[:3*v], want[:3*v], 1e-5)

	path := filepath.Join(k.dir, "config.json")
	good := testfile.Read(t, path)
	for change, message := range map[string]string{
		`"hidden_act": "silu"`:                      "hidden_act",
		`"position_embedding_type": "relative_key"`: "position_embedding_type",
		`"tie_word_embeddings": false`:              "tie_word_embeddings",
		`"add_cross_attention": true`:               "add_cross_attention",
		`"type_vocab_size": 0`:                      "type_vocab_size",
	} {
		content := string(good)
		key, _, _ := strings.Cut(change, ":")
		if i := strings.Index(content, key); i >= 0 {
			end := i + strings.IndexAny(content[i:], ",\n")
			content = content[:i] + change + content[end:]
		} else {
			content = strings.Replace(content, "{", "{"+change+",", 1)
		}
		testfile.Write(t, path, content)
		if _, err := Load(k.dir, Options{}); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", change, err)
		}
	}
}
