package lm

import (
	"fmt"
	"slices"

	"popri/internal/numeric"
	"popri/model/tensor"
)

// Scored is the result of a forward pass over rows: the log-probability of every counted token, row after row, and what
// the backward pass needs.
type Scored struct {
	LogProbs []float32 // nats
	Best     []int32   // the likeliest label of each row, of a classifier
	Rank     []int32   // likelier tokens at each position, if asked for: 0 where the counted token is the likeliest
	Entropy  []float32 // of the next-token distribution at each, nats
	Mean     []float32 // of the raw logits at each, over the vocabulary
	Row      []int     // the sequence that each belongs to, numbered through all rows: the row, where rows hold one
	hidden   tensor.Tensor
	tokens   []int32
	m        *Model
	replay   *replay // set if the backward pass computes the blocks again
	kept     *chunk  // if all positions are one chunk and gradients are recorded, from the first use on
	keeps    bool
	// The tokens and their embeddings, if the table is the head, too: its gradient is one matrix, not one for each use.
	ids, embedded tensor.Tensor
}

// The vocabulary is processed for this many positions at a time, so that its memory does not grow with the batch.
const vocabRows = 768

// Score runs the forward pass. Logits are computed only at positions that predict a counted token, for a few positions
// at a time, and are not kept. Under [tensor.Scope.WithGrad], [Scored.Gradients] returns the gradients of the
// parameters.
func (m *Model) Score(s *tensor.Scope, rows []Row, adapter Adapter, rank bool) *Scored {
	return m.score(s, rows, adapter, rank, dropout{})
}

func (m *Model) score(s *tensor.Scope, rows []Row, adapter Adapter, rank bool, drop dropout) *Scored {
	sc := m.unscored(s, rows, adapter, drop)
	if len(sc.Row) > 0 {
		sc.values(s, rank)
	}
	return sc
}

// values computes log-probabilities, ranks, entropies and mean logits. There must be a counted token.
func (sc *Scored) values(s *tensor.Scope, rank bool) {
	sc.chunks(s, func(c *chunk) {
		if sc.m.Config.Classifies() {
			sc.Best = append(sc.Best, likeliest(s, c.logits)...)
		}
		c.scored = s.NewLogProbs(c.logits, sc.tokens[c.from:c.to], rank, true)
		sc.LogProbs = append(sc.LogProbs, c.scored.Values...)
		sc.Rank = append(sc.Rank, c.scored.Rank...)
		sc.Entropy = append(sc.Entropy, c.scored.Entropy...)
		sc.Mean = append(sc.Mean, c.scored.Mean...)
	})
	n := len(sc.Row)
	sc.LogProbs, sc.Entropy, sc.Mean = sc.LogProbs[:n], sc.Entropy[:n], sc.Mean[:n]
	if rank {
		sc.Rank = sc.Rank[:n]
	}
}

// unscored is score without the log-probabilities, which [Scored.Gradients] then computes with the gradients: a loss
// whose weights do not depend on them needs one pass over the vocabulary instead of two.
func (m *Model) unscored(s *tensor.Scope, rows []Row, adapter Adapter, drop dropout) *Scored {
	in := m.rowsInput(s, rows)
	in.drop = drop
	sc, index := m.counted(rows, in.rowStarts(len(rows)))
	if len(index) == 0 {
		return sc
	}
	sc.keeps = s.Recording() && len(index) <= vocabRows
	positions := s.FromInt64(index, int64(len(index)))
	if in.few(len(index)) {
		in.rows, positions = positions, tensor.Tensor{}
	}
	if m.Recompute && s.Recording() {
		sc.replay = &replay{in: in, positions: positions, adapter: adapter}
		s.NoGrad(func() { sc.hidden = sc.replay.forward(s, m) })
	} else {
		if m.head.weight == m.embedding.tokens && m.trained() && s.Recording() {
			in.leaf, sc.ids = &sc.embedded, in.IDs
		}
		sc.hidden = m.pick(s, m.Hidden(s, in, adapter), positions, drop)
	}
	return sc
}

// counted returns the counted tokens of rows that begin at flat positions, and those whose hidden states predict them.
func (m *Model) counted(rows []Row, starts []int64) (sc *Scored, positions []int64) {
	positions, next, sequence := m.targets(rows, starts)
	// The number of positions is rounded up to a multiple of 32. The surplus scores position 0 and is dropped.
	for len(sequence) > 0 && len(positions)%32 != 0 {
		positions, next = append(positions, 0), append(next, 0)
	}
	return &Scored{m: m, Row: sequence, tokens: next}, positions
}

// chunk is the vocabulary at some of the counted positions.
type chunk struct {
	from, to  int
	h, logits tensor.Tensor    // hidden states [n, H] and logits [n, V], without their history
	scored    *tensor.LogProbs // what the logits say, once it was computed
}

// chunks calls f with all positions, a few at a time. Logits that are kept between calls belong to the scope.
func (sc *Scored) chunks(s *tensor.Scope, f func(c *chunk)) {
	defer tensor.Head.Enter()()
	s.NoGrad(func() {
		if sc.keeps {
			if sc.kept == nil {
				sc.kept = sc.chunk(s, 0, len(sc.tokens))
			}
			f(sc.kept)
			return
		}
		for from := 0; from < len(sc.tokens); from += vocabRows {
			s.Do(func() { f(sc.chunk(s, from, min(from+vocabRows, len(sc.tokens)))) })
		}
	})
}

func (sc *Scored) chunk(s *tensor.Scope, from, to int) *chunk {
	h := s.Detach(s.Narrow(sc.hidden, 0, int64(from), int64(to-from)))
	return &chunk{from: from, to: to, h: h, logits: s.Nest(func() tensor.Tensor {
		logits := s.Contiguous(sc.m.projectHead(s, h))
		if bias := sc.m.head.bias; bias.Defined() {
			s.Add_(logits, s.To(s.Detach(bias), logits.DType()))
		}
		return s.Contiguous(sc.m.capped(s, logits))
	})}
}

// Gradients returns the gradients of Σ weights[i]·LogProbs[i] with respect to params, which must all take part in it,
// and frees the graph. After [Model.unscored] it fills LogProbs. The vocabulary is processed chunk by chunk: the
// gradient of the hidden states is joined to their graph by its product with them, and the head's gradient is added up.
func (sc *Scored) Gradients(s *tensor.Scope, weights []float32, params []tensor.Tensor) []tensor.Tensor {
	m := sc.m
	if len(sc.tokens) == 0 {
		return numeric.Map(params, func(p tensor.Tensor) tensor.Tensor { return s.Zeros(p.DType(), p.Shape()...) })
	}
	dHidden, dHead := sc.vocabularyGradients(s, weights)
	root := func(hidden tensor.Tensor) tensor.Tensor { return product(s, hidden, dHidden) }
	var grads []tensor.Tensor
	switch {
	case sc.replay != nil:
		grads = sc.replay.backward(s, m, root, params)
	case sc.embedded.Defined():
		grads = s.Backward(root(sc.hidden), append(slices.Clone(params), sc.embedded))
		rows := s.Reshape(grads[len(params)], -1, m.embedding.tokens.Size(1))
		s.IndexAdd_(dHead[0], 0, s.Reshape(sc.ids, -1), s.To(rows, tensor.Float32))
		grads = grads[:len(params)]
	default:
		grads = s.Backward(root(sc.hidden), params)
	}
	for i, p := range params {
		for k, of := range []tensor.Tensor{m.head.weight, m.head.bias}[:len(dHead)] {
			if p != of {
				continue
			}
			dHead[k] = s.Reshape(dHead[k], p.Shape()...)
			if grads[i].Defined() { // a tied head is the embedding, too, here of blocks that were computed again
				s.Add_(dHead[k], grads[i])
			}
			grads[i] = dHead[k]
		}
		if !grads[i].Defined() {
			panic(&tensor.Error{Op: "Gradients", Text: fmt.Sprintf("parameter %d took no part in the loss", i)})
		}
		grads[i] = s.Contiguous(grads[i])
	}
	return grads
}

// vocabularyGradients returns the gradients of the hidden states and, if the head is trained, of its weight and bias.
func (sc *Scored) vocabularyGradients(s *tensor.Scope, weights []float32) (dHidden tensor.Tensor, dHead []tensor.Tensor) {
	m, unscored := sc.m, sc.LogProbs == nil
	weights = append(weights[:len(weights):len(weights)], make([]float32, len(sc.tokens)-len(weights))...)
	dHidden = s.Empty(sc.hidden.DType(), sc.hidden.Shape()...)
	if m.head.weight.RequiresGrad() {
		dHead = make([]tensor.Tensor, 1, 2)
		if m.head.bias.Defined() {
			dHead = dHead[:2]
		}
	}
	sc.chunks(s, func(c *chunk) {
		n := int64(c.to - c.from)
		s.Do(func() {
			c.gradient(s, sc, weights[c.from:c.to])
			if unscored {
				sc.LogProbs = append(sc.LogProbs, c.scored.Values[:min(c.to, len(sc.Row))-c.from]...)
			}
			s.Copy_(s.Narrow(dHidden, 0, int64(c.from), n), m.headGradient(s, c.logits))
			for i, sum := range dHead {
				left, right := s.Transpose(c.logits, 0, 1), c.h
				if i == 1 {
					left, right = s.Full(c.logits.DType(), 1, 1, n), c.logits
				}
				switch {
				case i == 0 && m.head.laidOut(c.logits.DType()):
					if dHead[i] = s.CrossProduct(c.logits, c.h, sum, tensor.Float32); !sum.Defined() {
						s.Keep(dHead[i])
					}
				case !sum.Defined():
					dHead[i] = s.Keep(s.To(s.MatMul(left, right), tensor.Float32))
				case left.DType() == sum.DType():
					s.AddMM_(sum, left, right)
				default:
					s.Add_(sum, s.MatMul(left, right))
				}
			}
		})
	})
	s.Own(dHead...)
	if sc.kept != nil { // whose memory the backward pass can use
		s.Keep(sc.kept.logits).Free()
		sc.kept, sc.keeps = nil, false
	}
	return dHidden, dHead
}

// gradient overwrites the logits with the gradient of Σ weights[i]·LogProbs[i] with respect to them before the cap.
func (c *chunk) gradient(s *tensor.Scope, sc *Scored, weights []float32) {
	var ofCap tensor.Tensor
	if limit := sc.m.Config.headCap(); limit != 0 {
		part := s.MulScalar(c.logits, 1/limit)
		ofCap = s.AddScalar(s.MulScalar(s.Mul(part, part), -1), 1)
	}
	if c.scored == nil {
		c.scored = s.NewLogProbs(c.logits, sc.tokens[c.from:c.to], false, false)
	}
	c.scored.Grad_(weights)
	if ofCap.Defined() {
		s.Copy_(c.logits, s.Mul(c.logits, ofCap))
	}
}

// product is a scalar whose gradient with respect to y is dy.
func product(s *tensor.Scope, y, dy tensor.Tensor) tensor.Tensor {
	return s.Sum(s.To(s.Mul(y, dy), tensor.Float32))
}

// Counted is the number of tokens that count in the rows' loss; for a classifier, the number of rows.
func (m *Model) Counted(rows []Row) int {
	_, tokens, _ := m.targets(rows, make([]int64, len(rows)))
	return len(tokens)
}

// LossGradients runs a forward and a backward pass on rows. It returns their part of the mean next-token loss over
// total counted tokens (negative log-likelihood, nats), and its gradients with respect to leaves, which [Model.Leaves]
// gives.
func (m *Model) LossGradients(s *tensor.Scope, rows []Row, adapter Adapter, leaves []tensor.Tensor, total int,
	drop Dropout) (loss float64, grads []tensor.Tensor) {
	s.WithGrad(func() {
		sc := m.unscored(s, rows, adapter, dropout{Dropout: drop})
		weights := slices.Repeat([]float32{-1 / float32(total)}, len(sc.Row))
		grads = sc.Gradients(s, weights, leaves)
		for _, lp := range sc.LogProbs {
			loss -= float64(lp) / float64(total)
		}
	})
	return loss, grads
}
