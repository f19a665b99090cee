package assembly

import (
	"maps"
	"math/rand/v2"
	"testing"

	"popri/configs"
	"popri/model/lm"
	"popri/model/safetensors"
)

// TestMemoryPlan: weights, copies and adapters have the sizes that loading gives, and what saves memory saves it.
func TestMemoryPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, shape := range []lm.Config{
		{Type: "gpt2", Vocab: 97, Context: 64, Hidden: 48, Layers: 2, Heads: 3, Inner: 80, NormEps: 1e-5,
			Gelu: "gelu_new", TiedHead: true, ScaleAttn: true},
		{Type: "llama", Vocab: 97, Context: 64, Hidden: 48, Layers: 3, Heads: 6, KVHeads: 2, Inner: 80, NormEps: 1e-5,
			ScaleAttn: true, Rotary: lm.Rotary{Theta: 1e4}},
	} {
		m, err := lm.New(shape, lm.Options{}, random.NormFloat64)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		dir := t.TempDir()
		if err := m.Save(dir, safetensors.F32); err != nil {
			t.Fatal(err)
		}
		found, err := lm.Inspect(dir)
		if err != nil {
			t.Fatal(err)
		}
		if found.Parameters != m.Parameters() || len(found.Projections) != len(m.Linears()) {
			t.Errorf("%s: %d parameters in %d projections, want %d in %d", shape.Type, found.Parameters,
				len(found.Projections), m.Parameters(), len(m.Linears()))
		}
		if made := lm.ShapeOf(shape); shape.Type == "gpt2" &&
			(made.Parameters != found.Parameters || !maps.Equal(made.Projections, found.Projections) ||
				made.Config.KVHeads != found.Config.KVHeads) {
			t.Errorf("the shape of a model to be made is %+v, that of its files %+v", made, found)
		}
		adapters := int64(0)
		c := configs.Default()
		c.Model.DType, c.DPO.MicroPairs = "bfloat16", 8
		for name, l := range m.Linears() {
			if p := found.Projections[name]; p != [2]int64{l.In, l.Out} {
				t.Errorf("%s maps %v, want %d to %d", name, p, l.In, l.Out)
			}
			adapters += int64(c.LoRA.Rank) * (l.In + l.Out)
		}
		sizes := map[string]int64{}
		for _, n := range MemoryPlan(c, found) {
			sizes[n.Stage+" "+n.Part] = n.Bytes
		}
		kv := 2 * int64(m.Config.KVHeads*m.Config.HeadDim()*m.Config.Layers*c.Generate.BatchTokens) * 2
		for part, want := range map[string]int64{"generate weights": 4 * m.Parameters(),
			"generate merged copy": 2 * m.Parameters(), "generate keys and values of generate.batch_tokens": kv,
			"train adapters, gradients and AdamW's moments (float32)": 16 * adapters} {
			if sizes[part] != want {
				t.Errorf("%s: %s takes %d bytes, want %d", shape.Type, part, sizes[part], want)
			}
		}
		_, most := Most(MemoryPlan(c, found))
		for _, change := range [][2]string{{"model.weights", "compute"}, {"optimizer.gradient_checkpointing", "true"},
			{"dpo.micro_pairs", "1"}} {
			smaller := c
			smaller.Generate.BatchTokens = 64
			if err := smaller.Set(change[0], change[1]); err != nil {
				t.Fatal(err)
			}
			if _, less := Most(MemoryPlan(smaller, found)); less >= most {
				t.Errorf("%s: %s=%s takes %d bytes, without it %d", shape.Type, change[0], change[1], less, most)
			}
		}
	}
}

// A pretrained small model is trained in passes, a huge one without keeping activations, and a toy as before; what was
// asked for goes first. Passes need less memory than whole batches of two models side by side.
func TestSmallPasses(t *testing.T) {
	d := configs.Default().Downstream
	d.Batch, d.MicroTexts = 32, 0
	for parameters, want := range map[int64]int{1e6: 0, largeModel: largePass, hugeModel: largePass} {
		texts, recompute := SmallPasses(d, lm.Shape{Parameters: parameters})
		if texts != want || recompute != (parameters >= hugeModel) {
			t.Errorf("%d parameters: passes of %d, recomputed: %v", parameters, texts, recompute)
		}
	}
	d.MicroTexts = 4
	if texts, _ := SmallPasses(d, lm.Shape{Parameters: largeModel}); texts != 4 {
		t.Errorf("downstream.micro_texts=4 gives passes of %d", texts)
	}
}

// TestSmallMemory: training adapters of a pretrained small model saves gradients, moments and best weights of all others.
func TestSmallMemory(t *testing.T) {
	small := lm.ShapeOf(lm.Config{Type: "gpt2", Vocab: 49152, Context: 1024, Hidden: 576, Layers: 30, Heads: 9, Inner: 1536})
	c := configs.Default()
	whole := SmallMemory(c, small)
	c.Downstream.Adapter = "lora"
	if saved := whole - SmallMemory(c, small); saved < 6*small.Parameters || saved > 16*small.Parameters { // copies for products take up to 8
		t.Errorf("adapters save %d bytes of %d, of %d weights", saved, whole, small.Parameters)
	}
}
