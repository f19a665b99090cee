package lm

import (
	"fmt"
	"math"

	"popri/tensor"
)

// Ignore marks a position whose token is not part of the loss.
const Ignore = int32(-100)

// Row is one training sequence. Labels[t] is Tokens[t] where the token counts in the loss, or [Ignore]; nil counts all.
// The first token is never predicted.
type Row struct {
	Tokens, Labels []int32
	// Second, where above Shared, makes the row two sequences with a common beginning: Tokens[:Second], and
	// Tokens[:Shared] followed by Tokens[Second:], which sees nothing of the first one's own part.
	Shared, Second int
}

func (r Row) branches() bool { return r.Second > r.Shared }

// targets returns the flat positions whose hidden state predicts a counted token, those tokens, and the sequence that each
// belongs to: sequences are numbered through all rows.
func targets(rows []Row, width int) (at []int64, tokens []int32, sequence []int) {
	number := 0
	for i, r := range rows {
		for t := 1; t < len(r.Tokens); t++ {
			before := t - 1
			if r.branches() && t == r.Second {
				number++
				before = r.Shared - 1
			}
			if r.Labels == nil || r.Labels[t] != Ignore {
				at = append(at, int64(i*width+before))
				tokens = append(tokens, r.Tokens[t])
				sequence = append(sequence, number)
			}
		}
		number++
	}
	return at, tokens, sequence
}

// branchedInput is [PaddedInput] for rows of which some hold two sequences: positions and a mask say what each token sees.
func branchedInput(s *tensor.Scope, rows []Row, in Input) Input {
	any := false
	for _, r := range rows {
		any = any || r.branches()
	}
	if !any {
		return in
	}
	width := int(in.IDs.Size(1))
	positions := make([]int64, len(rows)*width)
	mask := make([]byte, len(rows)*width*width)
	for i, r := range rows {
		for t := range width {
			position, hidden := t, 0 // hidden: where the own part begins, behind Shared
			if r.branches() && t >= r.Second {
				position, hidden = r.Shared+t-r.Second, r.Second
			}
			positions[i*width+t] = int64(min(position, width-1))
			row := mask[(i*width+t)*width:][:width]
			for u := 0; u <= t; u++ {
				if hidden == 0 || u < r.Shared || u >= hidden {
					row[u] = 1
				}
			}
		}
	}
	in.Positions = s.FromInt64(positions, int64(len(rows)), int64(width))
	in.Mask = s.FromBytes(tensor.Bool, mask, int64(len(rows)), 1, int64(width), int64(width))
	return in
}

// Scored is the result of a forward pass over rows: the log-probability of every counted token, row after row, and the
// way back.
type Scored struct {
	LogProbs []float32 // nats
	Best     []int32   // the likeliest token at each, where asked for
	Entropy  []float32 // of the next-token distribution at each, nats
	Row      []int     // the sequence that each belongs to: the row, where rows hold one
	hidden   tensor.Tensor
	tokens   []int32
	m        *Model
	replay   *replay // where the blocks are computed again on the way back
}

// The vocabulary pass runs over this many positions at a time, so that its memory does not grow with the batch.
const vocabRows = 512

// Score runs the forward pass. Only the positions that predict a counted token reach the vocabulary, a few at a time, and
// what is vocabulary wide is not kept. Under [tensor.Scope.WithGrad], [Scored.Gradients] leads back to the parameters.
func (m *Model) Score(s *tensor.Scope, rows []Row, adapter Adapter, best bool) *Scored {
	tokens := make([][]int32, len(rows))
	for i, r := range rows {
		tokens[i] = r.Tokens
	}
	in := branchedInput(s, rows, PaddedInput(s, tokens, m.Config.Context))
	at, next, sequence := targets(rows, int(in.IDs.Size(1)))
	n := len(at)
	sc := &Scored{m: m, Row: sequence}
	// The surplus of a rounded size scores position 0 and is dropped.
	for n > 0 && len(at)%32 != 0 {
		at, next = append(at, 0), append(next, 0)
	}
	sc.tokens = next
	if len(at) == 0 {
		return sc
	}
	if m.Recompute && s.Recording() {
		sc.replay = &replay{in: in, at: s.FromInt64(at, int64(len(at))), adapter: adapter}
		s.NoGrad(func() { sc.hidden = sc.replay.forward(s, m) })
	} else {
		hidden := s.Reshape(m.Hidden(s, in, adapter), -1, int64(m.Config.Hidden))
		sc.hidden = s.IndexSelect(hidden, 0, s.FromInt64(at, int64(len(at))))
	}
	sc.chunks(s, func(from, to int, h, logits tensor.Tensor) {
		l := s.NewLogProbs(logits, next[from:to], best, true)
		sc.LogProbs = append(sc.LogProbs, l.Values...)
		sc.Best = append(sc.Best, l.Best...)
		sc.Entropy = append(sc.Entropy, l.Entropy...)
	})
	sc.LogProbs, sc.Entropy = sc.LogProbs[:n], sc.Entropy[:n]
	if best {
		sc.Best = sc.Best[:n]
	}
	return sc
}

func (sc *Scored) chunks(s *tensor.Scope, f func(from, to int, h, logits tensor.Tensor)) {
	s.NoGrad(func() {
		head := s.Transpose(s.To(s.Detach(sc.m.head), sc.hidden.DType()), 0, 1)
		for from := 0; from < len(sc.tokens); from += vocabRows {
			to := min(from+vocabRows, len(sc.tokens))
			s.Do(func() {
				h := s.Detach(s.Narrow(sc.hidden, 0, int64(from), int64(to-from)))
				f(from, to, h, s.Contiguous(s.MatMul(h, head)))
			})
		}
	})
}

// MeanLogits returns the mean over the vocabulary of the raw logits at each counted position: the product of the hidden
// state with the mean row of the head.
func (sc *Scored) MeanLogits(s *tensor.Scope) []float64 {
	if len(sc.LogProbs) == 0 {
		return nil
	}
	var out []float64
	s.NoGrad(func() {
		s.Do(func() {
			mean := s.MeanDim(s.To(s.Detach(sc.m.head), tensor.Float32), 0)
			out = s.Float64s(s.MatMul(s.To(s.Detach(sc.hidden), tensor.Float32), s.Transpose(mean, 0, 1)))[:len(sc.LogProbs)]
		})
	})
	return out
}

// Gradients returns the gradients of Σ weights[i]·LogProbs[i] with respect to params, which must all take part in it, and
// frees the graph. The vocabulary's share is computed chunk by chunk and joined to the graph of the hidden states through
// their product with it.
func (sc *Scored) Gradients(s *tensor.Scope, weights []float32, params []tensor.Tensor) []tensor.Tensor {
	m := sc.m
	weights = append(weights[:len(weights):len(weights)], make([]float32, len(sc.tokens)-len(weights))...)
	trainsHead := m.head.RequiresGrad()
	dHidden := s.Empty(sc.hidden.DType(), sc.hidden.Shape()...)
	var dHead tensor.Tensor
	if trainsHead {
		dHead = s.Zeros(tensor.Float32, m.head.Shape()...)
	}
	sc.chunks(s, func(from, to int, h, logits tensor.Tensor) {
		s.NewLogProbs(logits, sc.tokens[from:to], false, false).Grad_(weights[from:to])
		s.Copy_(s.Narrow(dHidden, 0, int64(from), int64(to-from)), s.MatMul(logits, s.To(s.Detach(m.head), logits.DType())))
		if trainsHead {
			s.Add_(dHead, s.MatMul(s.Transpose(logits, 0, 1), h))
		}
	})
	root := func(hidden tensor.Tensor) tensor.Tensor {
		root := product(s, hidden, dHidden)
		if trainsHead {
			root = s.Add(root, s.Sum(s.Mul(m.head, dHead)))
		}
		return root
	}
	if sc.replay != nil {
		return sc.replay.backward(s, m, root, params)
	}
	return s.Backward(root(sc.hidden), params)
}

// product is a scalar whose gradient with respect to y is dy.
func product(s *tensor.Scope, y, dy tensor.Tensor) tensor.Tensor {
	return s.Sum(s.To(s.Mul(y, dy), tensor.Float32))
}

// Trainer updates parameters by AdamW on the mean next-token loss (negative log-likelihood, nats).
type Trainer struct {
	Params  []tensor.Tensor // float32 leaves, e.g. from [Model.Trainable]
	Adam    *tensor.AdamW
	MaxNorm float64 // gradients are clipped to this global L2 norm; 0 does not clip
}

// NewTrainer makes a trainer for params with torch.optim.AdamW's arithmetic.
func NewTrainer(params []tensor.Tensor, beta1, beta2, eps, weightDecay, maxNorm float64) *Trainer {
	sizes := make([]int, len(params))
	for i, p := range params {
		sizes[i] = int(p.NumElements())
	}
	return &Trainer{Params: params, Adam: tensor.NewAdamW(beta1, beta2, eps, weightDecay, sizes), MaxNorm: maxNorm}
}

// Trainable marks all weights of the model as parameters and returns them in the order of [Model.Names].
func (m *Model) Trainable() ([]tensor.Tensor, error) {
	m.unpack() // the copies would not follow
	var params []tensor.Tensor
	err := tensor.Run(func(s *tensor.Scope) error {
		for _, name := range m.Names() {
			p := m.params[name]
			if p.DType() != tensor.Float32 {
				return fmt.Errorf("lm: %s has the type %v, training needs float32 weights", name, p.DType())
			}
			s.RequireGrad(p, true)
			params = append(params, p)
		}
		return nil
	})
	return params, err
}

// Apply clips and applies gradients at learning rate lr and returns their norm before the clip. A norm that is not finite
// changes nothing and is an error. The update is the CPU's: on a GPU, gradients and parameters come over and the parameters
// go back, 12 bytes a parameter, which is nothing for adapters and, for all the weights of a model, takes longer than the
// gradients do.
func (t *Trainer) Apply(grads []tensor.Tensor, lr float64) (norm float64, err error) {
	p, g := make([][]float32, len(grads)), make([][]float32, len(grads))
	for i := range grads {
		p[i], g[i] = t.Params[i].Host(), grads[i].Host()
	}
	norm = tensor.GlobalNorm(g)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("lm: the gradient's norm is %g", norm)
	}
	if err := t.Adam.Update(p, g, lr, tensor.ClipScale(norm, t.MaxNorm)); err != nil {
		return norm, err
	}
	for i := range grads {
		t.Params[i].Store(p[i])
	}
	return norm, nil
}

// Step does one update on rows and returns the mean loss before it and the gradient norm before clipping.
func (t *Trainer) Step(s *tensor.Scope, m *Model, adapter Adapter, rows []Row, lr float64) (loss, norm float64, err error) {
	s.Do(func() {
		var grads []tensor.Tensor
		loss, grads = t.gradients(s, m, adapter, rows, counted(rows))
		norm, err = t.Apply(grads, lr)
	})
	return loss, norm, finite(loss, err)
}

// StepParts is [Trainer.Step] on rows in parts that are computed side by side, one a thread. The cut is part of the
// computation: the same parts give the same bits on any number of threads.
func (t *Trainer) StepParts(m *Model, adapter Adapter, rows []Row, parts int, lr float64) (loss, norm float64, err error) {
	total := counted(rows)
	losses := make([]float64, parts)
	grads := make([][]tensor.Tensor, parts)
	defer func() {
		for _, part := range grads {
			for _, g := range part {
				g.Free()
			}
		}
	}()
	err = tensor.Parallel(parts, func(i int, s *tensor.Scope) error {
		var g []tensor.Tensor
		losses[i], g = t.gradients(s, m, adapter, rows[i*len(rows)/parts:(i+1)*len(rows)/parts], total)
		for _, x := range g {
			grads[i] = append(grads[i], s.Keep(x))
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	err = tensor.Run(func(s *tensor.Scope) error {
		for i := range parts {
			loss += losses[i]
			for k := range grads[0] {
				if i > 0 {
					s.Add_(grads[0][k], grads[i][k])
				}
			}
		}
		norm, err = t.Apply(grads[0], lr)
		return err
	})
	return loss, norm, finite(loss, err)
}

func finite(loss float64, err error) error {
	if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
		return fmt.Errorf("lm: the loss is %g", loss)
	}
	return err
}

func counted(rows []Row) int {
	_, tokens, _ := targets(rows, 0)
	return len(tokens)
}

// gradients returns the share of rows in the mean loss over total tokens, and its gradients.
func (t *Trainer) gradients(s *tensor.Scope, m *Model, adapter Adapter, rows []Row, total int) (loss float64, grads []tensor.Tensor) {
	s.WithGrad(func() {
		sc := m.Score(s, rows, adapter, false)
		weights := make([]float32, len(sc.LogProbs))
		for i, lp := range sc.LogProbs {
			weights[i] = -1 / float32(total)
			loss -= float64(lp) / float64(total)
		}
		grads = sc.Gradients(s, weights, t.Params)
	})
	for i := range grads {
		grads[i] = s.Contiguous(grads[i])
	}
	return loss, grads
}

// Evaluate returns the mean negative log-likelihood of the counted tokens (nats) and the share of them that are the
// likeliest token, in batches of at most the given number of padded tokens.
func (m *Model) Evaluate(s *tensor.Scope, rows []Row, batchTokens int) (loss, accuracy float64, err error) {
	each, err := m.EvaluateRows(s, rows, batchTokens)
	if err != nil {
		return 0, 0, err
	}
	tokens, correct := 0, 0
	for _, r := range each {
		loss += r.Loss
		correct += r.Correct
		tokens += r.Tokens
	}
	if tokens == 0 {
		return 0, 0, fmt.Errorf("lm: nothing to evaluate: the rows hold no counted token")
	}
	return loss / float64(tokens), float64(correct) / float64(tokens), nil
}

// RowScore is the evaluation of one row.
type RowScore struct {
	Loss            float64 // summed negative log-likelihood, nats
	Tokens, Correct int
}

// EvaluateRows scores each row by itself.
func (m *Model) EvaluateRows(s *tensor.Scope, rows []Row, batchTokens int) ([]RowScore, error) {
	out := make([]RowScore, len(rows))
	for from := 0; from < len(rows); {
		to, width := from, 1
		for to < len(rows) {
			w := max(width, len(rows[to].Tokens))
			if to > from && w*(to-from+1) > batchTokens {
				break
			}
			width, to = w, to+1
		}
		batch := rows[from:to]
		s.Do(func() {
			sc := m.Score(s, batch, nil, true)
			for i, lp := range sc.LogProbs {
				r := &out[from+sc.Row[i]]
				r.Loss -= float64(lp)
				r.Tokens++
				if sc.Best[i] == sc.tokens[i] {
					r.Correct++
				}
			}
		})
		from = to
	}
	for i, r := range out {
		if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
			return nil, fmt.Errorf("lm: row %d has the loss %g", i, r.Loss)
		}
	}
	return out, nil
}
