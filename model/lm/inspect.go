package lm

import (
	"fmt"
	"strings"

	"popri/internal/numeric"
)

// Shape is what a checkpoint's headers say of its size.
type Shape struct {
	Config     Config
	Parameters int64 // a tied head counts once
	// Projections are the inputs and outputs of the projections in blocks, by name without ".weight".
	Projections map[string][2]int64
	// Untied says that the files have an output projection of their own though tie_word_embeddings is true. It counts.
	Untied bool
}

// Inspect reads the shape of the model in a Hugging Face directory, without its weights.
func Inspect(dir string) (Shape, error) {
	config, err := readConfig(dir)
	if err != nil {
		return Shape{}, err
	}
	c, err := openFolder(dir, config)
	if err != nil {
		return Shape{}, err
	}
	defer c.close()
	s := Shape{Config: c.config, Projections: map[string][2]int64{}, Untied: c.untied}
	for name, t := range c.tensors {
		s.Parameters += numeric.Product(t.Shape)
		module, isWeight := strings.CutSuffix(name, ".weight")
		if !isWeight || len(t.Shape) != 2 || !strings.Contains(name, ".h.") && !strings.Contains(name, ".layers.") {
			continue
		}
		s.Projections[module] = [2]int64{t.Shape[1], t.Shape[0]}
		if config.Type == "gpt2" { // stored [in, out]
			s.Projections[module] = [2]int64{t.Shape[0], t.Shape[1]}
		}
	}
	return s, nil
}

// ShapeOf is the shape of a new GPT-2 model with a tied head, which is nowhere yet.
func ShapeOf(c Config) Shape {
	c = c.complete()
	h, inner := int64(c.Hidden), int64(c.Inner)
	s := Shape{Config: c, Parameters: (int64(c.Vocab)+int64(c.Context)+2)*h + 4*h*int64(c.Layers),
		Projections: map[string][2]int64{}}
	for i := range c.Layers {
		for name, p := range map[string][2]int64{"attn.c_attn": {h, 3 * h}, "attn.c_proj": {h, h},
			"mlp.c_fc": {h, inner}, "mlp.c_proj": {inner, h}} {
			s.Projections[fmt.Sprintf("transformer.h.%d.%s", i, name)] = p
			s.Parameters += p[0]*p[1] + p[1]
		}
	}
	return s
}
