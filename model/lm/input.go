package lm

import (
	"fmt"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Input is one batch for the forward pass.
type Input struct {
	IDs       tensor.Tensor // int64 [B, T]
	Positions tensor.Tensor // int64 [B, T]; none means 0…T-1
	Mask      tensor.Tensor // bool [B, 1, T, T] or [1, 1, T, T], true where a row may look at a column; none means causal
	starts    []int64       // where each sequence that is packed into one row begins, and the end; none: rows are padded
	longest   int           // tokens of a packed sequence
	drop      dropout
	leaf      *tensor.Tensor // if not nil, receives the tokens' embeddings [B, T, H], where gradients then end
	rows      tensor.Tensor  // the flat positions [n] whose hidden states are wanted; none: all
}

// few reports whether the last block should compute its MLP for the n scored positions alone. With dropout it cannot,
// because the masks depend on the position of a token among all.
func (in Input) few(n int) bool { return in.drop.Rate == 0 && int64(n) < in.IDs.NumElements()*3/4 }

// blocked is the score of a masked column. Minus infinity would turn rows of padding alone into NaN.
const blocked = -1e30

// scoreMask is added to the attention scores: 0 where a row may look, blocked elsewhere.
func (m *Model) scoreMask(s *tensor.Scope, in Input, t int64) tensor.Tensor {
	if in.Mask.Defined() {
		zero := s.Zeros(m.Compute, 1)
		return s.Where(in.Mask, zero, s.Full(m.Compute, blocked, 1))
	}
	allowed := s.Tril(s.Full(tensor.Float32, 1, t, t), 0)
	return s.To(s.MulScalar(s.AddScalar(allowed, -1), -blocked), m.Compute)
}

// CheckTokens returns an error that names the first id outside the vocabulary, or a sequence longer than the context.
func (m *Model) CheckTokens(ids []int32) error {
	if len(ids) > m.Config.Context {
		return fmt.Errorf("lm: a sequence of %d tokens is longer than the context of %d", len(ids), m.Config.Context)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= m.Config.Vocab {
			return fmt.Errorf("lm: token %d at position %d is outside the vocabulary of %d", id, i, m.Config.Vocab)
		}
	}
	return nil
}

// CheckVocabulary returns an error if a tokenizer of the given size has ids that the model lacks.
func (m *Model) CheckVocabulary(size int) error {
	if size > m.Config.Vocab {
		return fmt.Errorf("lm: the tokenizer has ids up to %d, the model's vocabulary is %d: they do not belong "+
			"together", size-1, m.Config.Vocab)
	}
	return nil
}

// PaddedInput lays sequences out as right-padded rows. A row's padding comes after its tokens, so the causal mask hides
// it. The width is rounded up within the context, because the library compiles a kernel for each new size of a product.
func PaddedInput(s *tensor.Scope, rows [][]int32, context int) Input {
	width := max(1, numeric.Greatest(rows, func(r []int32) int { return len(r) }))
	width = max(width, min(roundUp(width, 8), context))
	flat := make([]int64, len(rows)*width)
	for i, r := range rows {
		for j, id := range r {
			flat[i*width+j] = int64(id)
		}
	}
	return Input{IDs: s.FromInt64(flat, int64(len(rows)), int64(width))}
}
