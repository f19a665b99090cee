package lm

import (
	"fmt"
	"math"

	"popri/model/tensor"
)

// Input is one batch for the forward pass.
type Input struct {
	IDs       tensor.Tensor // int64 [B, T]
	Positions tensor.Tensor // int64 [B, T]; none means 0…T-1
	Mask      tensor.Tensor // bool [B, 1, T, T] or [1, 1, T, T], true where a row may look at a column; none means causal
	starts    []int64       // of the sequences that are behind each other in one row, and their end; none: rows are padded
	longest   int           // of these
	drop      dropout
	leaf      *tensor.Tensor // if not nil, receives the tokens' embeddings [B, T, H], where gradients then end
	at        tensor.Tensor  // the flat positions [n] whose hidden states are wanted; none: all
}

// hidden as a masked score. Minus infinity would turn rows of padding alone into NaN.
const blocked = -1e30

// Hidden runs the decoder and returns the final norm's output [B, T, H] in the model's compute type.
func (m *Model) Hidden(s *tensor.Scope, in Input, adapter Adapter) tensor.Tensor {
	m.whole("Hidden")
	x := m.embed(s, in)
	c := m.attentionInputs(s, in)
	for i, b := range m.blocks {
		x = b.apply(s, x, m.inBlock(c, i), adapter)
	}
	return m.norm.apply(s, x)
}

// placed is an adapter whose change of a token depends on the token's place in the batch.
type placed interface{ Placed() }

// few reports whether the last block should compute what follows its attention for n positions of the input alone.
// What dropout hides depends on the place of a token among all.
func (in Input) few(n int, adapter Adapter) bool {
	_, byRow := adapter.(placed)
	return !byRow && in.drop.Share == 0 && int64(n) < in.IDs.NumElements()*3/4
}

// attentionInputs are the inputs of every block's attention for a batch.
type attentionInputs struct {
	rotations
	mask   tensor.Tensor // added to the scores
	sights tensor.Tensor // the mask in the type that attention without scores in memory takes, if the CPU has it
	starts []int64       // see [Input]
	scale  float64       // of the scores
	cap    float64       // see [Config.AttnCap]
	drop   dropout       // of the block
	at     tensor.Tensor // see [Input]; in the last block alone
}

func (m *Model) attentionInputs(s *tensor.Scope, in Input) attentionInputs {
	width := in.IDs.Size(1)
	if len(in.starts) > 0 {
		width = int64(in.longest)
	}
	c := m.masked(s, m.scoreMask(s, in, width))
	c.rotations, c.starts, c.drop, c.at = m.rotations(s, in, m.Compute), in.starts, in.drop, in.at
	return c
}

// masked are the inputs with this mask, without rotations and dropout.
func (m *Model) masked(s *tensor.Scope, mask tensor.Tensor) attentionInputs {
	c := attentionInputs{mask: mask, sights: mask, scale: m.scale(), cap: m.Config.AttnCap}
	if s.CanAttendHeads(m.Compute, int64(m.Config.HeadDim())) {
		c.sights = s.To(mask, tensor.BFloat16)
	}
	return c
}

// inBlock returns the inputs of one block.
func (m *Model) inBlock(c attentionInputs, block int) attentionInputs {
	c.drop = c.drop.in(block)
	if block < len(m.blocks)-1 {
		c.at = tensor.Tensor{}
	}
	return c
}

// rowsAt returns the rows [1, n, H] of x [B, T, H] at flat positions [n]; all of x if there are none.
func rowsAt(s *tensor.Scope, x, at tensor.Tensor) tensor.Tensor {
	if !at.Defined() {
		return x
	}
	width := x.Size(-1)
	return s.View(s.IndexSelect(s.Reshape(x, -1, width), 0, at), 1, -1, width)
}

// apply runs the block. Tensors that are not needed further are freed at the end: without gradients, all but the
// result.
func (b block) apply(s *tensor.Scope, x tensor.Tensor, c attentionInputs, adapter Adapter) tensor.Tensor {
	return s.Nest(func() tensor.Tensor {
		before, after := b.norms()
		h, x := beside(before[0], s, x)
		y := s.Nest(func() tensor.Tensor {
			qkv := b.attn.normed(s, b.attn.qkv.apply(s, h, adapter))
			q, k, v := b.attn.split(s, qkv, c.of(b.attn))
			return rowsAt(s, b.attn.attend(s, q, k, v, c), c.at)
		})
		x = rowsAt(s, x, c.at)
		if b.attnOut == nil && c.drop.Share == 0 {
			x = projectedOnto(s, b.attn.out, y, x, adapter)
		} else {
			y = applied(b.attnOut)(s, b.attn.out.apply(s, y, adapter))
			x = s.Add(x, c.drop.apply(s, y, dropAttention))
		}
		h, x = beside(before[1], s, applied(after[0])(s, x))
		if b.mlpOut == nil && c.drop.Share == 0 {
			if y, ok := b.mlp.onto(s, h, x, adapter); ok {
				return applied(after[1])(s, y)
			}
		}
		y = applied(b.mlpOut)(s, b.mlp.apply(s, h, adapter))
		return applied(after[1])(s, s.Add(x, c.drop.apply(s, y, dropMLP)))
	})
}

type step func(s *tensor.Scope, x tensor.Tensor) tensor.Tensor

// applied applies a norm, or nothing where it is nil.
func applied(n norm) step {
	if n == nil {
		return func(_ *tensor.Scope, x tensor.Tensor) tensor.Tensor { return x }
	}
	return n.apply
}

// norms returns the norms of the inputs of attention and MLP, and of their sums with the residual stream, nil for none.
func (b block) norms() (before, after [2]norm) {
	before = [2]norm{b.attnNorm, b.mlpNorm}
	if b.after {
		return after, before
	}
	return before, after
}

func (m *Model) scale() float64 {
	switch {
	case m.Config.AttnScale != 0:
		return m.Config.AttnScale
	case !m.Config.ScaleAttn:
		return 1
	}
	return 1 / math.Sqrt(float64(m.Config.HeadDim()))
}

func (m *Model) embed(s *tensor.Scope, in Input) tensor.Tensor {
	t := in.IDs.Size(1)
	x := s.Embedding(m.tok, in.IDs)
	if in.leaf != nil {
		x = s.Detach(x)
		s.RequireGrad(x, true)
		*in.leaf = x
	}
	if m.pos.Defined() {
		if in.Positions.Defined() {
			x = s.Add(x, s.Embedding(m.pos, in.Positions))
		} else {
			x = s.Add(x, s.Narrow(m.pos, 0, int64(m.Config.FirstPosition), t))
		}
	}
	if m.types.Defined() {
		x = s.Add(x, s.Narrow(m.types, 0, 0, 1))
	}
	x = s.To(x, m.Compute)
	if m.embedScale != 0 {
		x = s.MulScalar(x, rounded(m.embedScale, m.Compute))
	}
	if m.embedNorm != nil {
		x = m.embedNorm.apply(s, x)
	}
	return in.drop.apply(s, x, dropEmbedding)
}

// rounded is x as the type d holds it.
func rounded(x float64, d tensor.DType) float64 {
	if d != tensor.BFloat16 {
		return float64(float32(x))
	}
	bits := math.Float32bits(float32(x))
	return float64(math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff))
}

// scoreMask is added to the attention scores: 0 where a row may look, blocked elsewhere.
func (m *Model) scoreMask(s *tensor.Scope, in Input, t int64) tensor.Tensor {
	if in.Mask.Defined() {
		zero := s.Zeros(m.Compute, 1)
		return s.Where(in.Mask, zero, s.Full(m.Compute, blocked, 1))
	}
	allowed := s.Tril(s.Full(tensor.Float32, 1, t, t), 0)
	return s.To(s.MulScalar(s.AddScalar(allowed, -1), -blocked), m.Compute)
}

// Logits maps hidden states [..., H] to float32 logits [..., V].
func (m *Model) Logits(s *tensor.Scope, hidden tensor.Tensor) tensor.Tensor {
	defer tensor.Head.Enter()()
	if m.packed() && !s.Recording() {
		return m.capped(s, m.headPacked.Product(s, hidden, tensor.Epilogue{DType: tensor.Float32}))
	}
	bias := m.headBias
	if bias.Defined() {
		bias = s.To(bias, hidden.DType())
	}
	return m.capped(s, s.To(s.Linear(hidden, s.To(m.head, hidden.DType()), bias), tensor.Float32))
}

// draw is [tensor.Sampler.Draw] from the logits of hidden [n, H].
func (m *Model) draw(s *tensor.Scope, hidden tensor.Tensor, d *tensor.Sampler, u []float64, ban []bool) []int32 {
	if m.packed() && m.Config.LogitsCap == 0 && d.Streams(m.headPacked) {
		defer tensor.Head.Enter()()
		return d.DrawFrom(s, m.headPacked, hidden, u, ban)
	}
	return d.Draw(s, s.Contiguous(m.Logits(s, hidden)), u, ban)
}

// capped are logits with [Config.LogitsCap].
func (m *Model) capped(s *tensor.Scope, logits tensor.Tensor) tensor.Tensor {
	if m.Config.LogitsCap == 0 {
		return logits
	}
	return s.Capped(logits, m.Config.LogitsCap)
}

// LogProbs returns the float32 log-probability of targets [n] under the rows of hidden [n, H], in nats.
func (m *Model) LogProbs(s *tensor.Scope, hidden, targets tensor.Tensor) tensor.Tensor {
	logits := m.Logits(s, hidden)
	picked := s.Gather(logits, 1, s.Unsqueeze(targets, 1))
	return s.Sub(s.Select(picked, 1, 0), s.LogSumExp(logits, 1))
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
	width := 1
	for _, r := range rows {
		width = max(width, len(r))
	}
	width = max(width, min(roundUp(width, 8), context))
	flat := make([]int64, len(rows)*width)
	for i, r := range rows {
		for j, id := range r {
			flat[i*width+j] = int64(id)
		}
	}
	return Input{IDs: s.FromInt64(flat, int64(len(rows)), int64(width))}
}
