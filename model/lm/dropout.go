package lm

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"popri/model/tensor"
)

// Dropout sets a share of a training pass's activations to zero and scales the others up (Srivastava et al. 2014), in
// the places of GPT-2: the embedding, the attention's weights, and what attention and MLP add to the residual stream.
// Every mask follows from the pass's seed, the block and the place, so that a block computed again gets the same one,
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

// Places of a mask.
const (
	dropEmbedding = iota
	dropWeights
	dropAttention
	dropMLP
	dropPlaces
)

// masks are buffers for a mask.
var masks = sync.Pool{New: func() any { return new([]byte) }}

func (d dropout) in(block int) dropout {
	d.block = block
	return d
}

func (d dropout) apply(s *tensor.Scope, x tensor.Tensor, place int) tensor.Tensor {
	return Drop(s, x, d.Share, rand.NewPCG(d.Seed, uint64(d.block*dropPlaces+place)))
}

// Drop sets a share of x's elements to zero and scales the others up by 1/(1 − share). x is divided into as many equal
// parts as there are streams; a part's mask follows from its stream alone, and the mask of a longer part begins with
// that of a shorter one. So rows along the first axis keep their masks whatever rows they are padded with.
func Drop(s *tensor.Scope, x tensor.Tensor, share float64, streams ...rand.Source) tensor.Tensor {
	if share == 0 {
		return x
	}
	buffer := masks.Get().(*[]byte)
	defer masks.Put(buffer)
	mask := slices.Grow((*buffer)[:0], int(x.NumElements()))[:x.NumElements()]
	*buffer = mask
	part := len(mask) / len(streams)
	for i, random := range streams {
		drawMask(mask[i*part:(i+1)*part], share, random)
	}
	kept := s.To(s.FromBytes(tensor.Bool, mask, x.Shape()...), x.DType())
	return s.MulScalar(s.Mul(x, kept), 1/(1-share))
}

// drawMask sets about a share of mask to 0 and the rest to 1.
func drawMask(mask []byte, share float64, random rand.Source) {
	limit := uint64(math.Round(share * (1 << 16)))
	for i := 0; i < len(mask); i += 4 {
		bits := random.Uint64()
		for k := i; k < min(i+4, len(mask)); k++ {
			mask[k] = 0
			if bits&0xffff >= limit {
				mask[k] = 1
			}
			bits >>= 16
		}
	}
}
