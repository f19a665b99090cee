package lm

import (
	"math/rand/v2"

	"popri/model/tensor"
)

// Dropout sets activations of a training pass to zero with a probability and scales the others up (Srivastava et al.
// 2014), where GPT-2 does: in the embedding, the attention's weights, and what attention and MLP add to the residual
// stream. The masks follow from the seed of the pass, the block and the site, so a block that is computed again has the
// same ones, and the number of threads changes no bits.
type Dropout struct {
	Rate float64 // probability of zero; 0 for no dropout
	Seed uint64  // of the pass
}

// dropout is a pass's Dropout in one block.
type dropout struct {
	Dropout
	block int
}

// Sites of dropout.
const (
	dropEmbedding = iota
	dropWeights
	dropAttention
	dropMLP
	dropSites
)

func (d dropout) in(block int) dropout {
	d.block = block
	return d
}

// of is the dropout of a site.
func (d dropout) of(site int) tensor.Dropout {
	if d.Rate == 0 {
		return tensor.Dropout{}
	}
	return tensor.Dropout{Rate: d.Rate, Key: rand.NewPCG(d.Seed, uint64(d.block*dropSites+site)).Uint64()}
}

func (d dropout) apply(s *tensor.Scope, x tensor.Tensor, site int) tensor.Tensor {
	return s.Drop(x, d.of(site))
}
