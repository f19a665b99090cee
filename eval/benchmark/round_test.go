package benchmark

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/model/lm"
	"popri/model/tensor"
	"popri/testkit/testfile"
)

// tiny is a round of a few tokens with a model that a folder describes.
func tiny(t *testing.T) RoundOptions {
	t.Helper()
	dir := t.TempDir()
	config := `{"model_type":"llama","vocab_size":64,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":3,` +
		`"num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5,"hidden_act":"silu"}`
	testfile.Write(t, filepath.Join(dir, "config.json"), config)
	return RoundOptions{Shape: dir, Layers: 2, K: 3, J: 4, Prompt: 8, New: 5, Clients: 20, Rejected: 3, Rank: 2, Batch: 2,
		DType: tensor.Float32, Seed: 1}
}

// A round goes through all of its stages, in the order of a run, and its operations follow from its sizes.
func TestRound(t *testing.T) {
	o := tiny(t)
	var told []string
	o.Done = func(s Stage) { told = append(told, s.Name) }
	r, err := MeasureRound(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := "make weights, merge adapters, write samples, restore weights, embed samples, score samples, rank pairs, " +
		"reference, updates, save adapters"
	if got := strings.Join(told, ", "); got != want || len(r.Stages) != len(told) {
		t.Errorf("the stages are %s", got)
	}
	// Of a block: queries and outputs 32·32 each, keys and values 32·16 each, three matrices of 32·64 in the MLP.
	const block, head = 2*32*32 + 2*32*16 + 3*32*64, 64 * 32
	if want := int64(2*head + 2*(block+2*32) + 32); r.Parameters != want || r.Layers != 2 || r.Pairs != 3 {
		t.Errorf("%d parameters in %d layers and %d pairs, want %d, 2 and 3", r.Parameters, r.Layers, r.Pairs, want)
	}
	tokens, drawn := float64(3*8+12*4), float64(3+12*4) // that pass through the blocks, and through the head
	if want := 2 * (2*block*tokens + head*drawn); r.Stages[2].Flops != want {
		t.Errorf("samples take %g operations, want %g", r.Stages[2].Flops, want)
	}
	if r.Stages[8].Flops != 2*r.Stages[7].Flops || r.Seconds <= 0 || r.Rate <= 0 || r.Stages[7].Utilisation <= 0 {
		t.Errorf("the round is %+v", r)
	}
}

// Sizes that make no sense, and shapes that are not known, are refused before anything is computed.
func TestRoundRefuses(t *testing.T) {
	for want, change := range map[string]func(o *RoundOptions){
		"rejected rank 5":             func(o *RoundOptions) { o.Rejected = 5 },
		"0 prompts":                   func(o *RoundOptions) { o.K = 0 },
		`--shape is "llama-9"`:        func(o *RoundOptions) { o.Shape = "llama-9" },
		"in the context of 64":        func(o *RoundOptions) { o.Prompt = 64 },
		"with 1 samples of 5":         func(o *RoundOptions) { o.J = 1 },
		"none/config.json is missing": func(o *RoundOptions) { o.Encoder = filepath.Join(o.Shape, "none") },
	} {
		o := tiny(t)
		change(&o)
		if _, err := MeasureRound(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Each known shape can be read, and one of them computes as its folder would.
func TestShapes(t *testing.T) {
	for _, name := range Shapes() {
		if c, err := shapeOf(name); err != nil || c.Layers < 16 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	c, err := shapeOf("smollm2-135m")
	if err != nil {
		t.Fatal(err)
	}
	m, err := lm.Random(c, lm.Options{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if n := m.Parameters(); n != 134515008 { // of the published model
		t.Errorf("%d parameters", n)
	}
}
