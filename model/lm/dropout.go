package lm

import (
	"math/rand/v2"

	"popri/model/tensor"
)

// Dropout sets a share of a training pass's activations to zero and scales the others up (Srivastava et al. 2014), in
// the places of GPT-2: the embedding, the attention's weights, and what attention and MLP add to the residual stream.
// What is hidden follows from the pass's seed, the block and the place, so that a block computed again hides the same,
// and the bits do not depend on the threads.
type Dropout struct {
	Share float64 // of the activations, from 0 (none) up to 1
	Seed  uint64  // of the pass
}

// dropout is a pass's Dropout in one block.
type dropout struct {
	Dropout
	block int
}

// Places of dropout.
const (
	dropEmbedding = iota
	dropWeights
	dropAttention
	dropMLP
	dropPlaces
)

func (d dropout) in(block int) dropout {
	d.block = block
	return d
}

// of is the dropout of a place.
func (d dropout) of(place int) tensor.Dropout {
	if d.Share == 0 {
		return tensor.Dropout{}
	}
	return tensor.Dropout{Rate: d.Share, Key: rand.NewPCG(d.Seed, uint64(d.block*dropPlaces+place)).Uint64()}
}

func (d dropout) apply(s *tensor.Scope, x tensor.Tensor, place int) tensor.Tensor {
	return s.Drop(x, d.Share, d.of(place).Key)
}
