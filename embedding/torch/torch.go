// Package torch runs the sentence encoders on libtorch: BERT (Devlin et al. 2018) and its relatives, whose layers
// normalize what they add up to, and T5's encoder (Raffel et al. 2019), whose layers normalize what they are given. Texts
// of similar length form a batch.
package torch

import (
	"math"
	"slices"
	"sync"

	"popri/embedding"
	"popri/embedding/sentence"
	"popri/tensor"
)

// Encoder implements [embedding.Encoder]. Free releases it.
type Encoder struct {
	folder       *sentence.Folder
	compute      tensor.DType
	word         tensor.Tensor // [vocabulary, H]
	pos          tensor.Tensor // [context, H]; undefined without positions
	normW, normB tensor.Tensor
	relative     []float32 // see [sentence.Config.RelativeBias]
	layers       []layer
	finalNorm    tensor.Tensor
	kept         []tensor.Tensor
}

// layer holds one block's weights; matrices are [out, in]. T5 has no biases, and the other kinds no gate.
type layer struct {
	qkv, qkvB, out, outB, normW, normB         tensor.Tensor
	up, upB, gate, down, downB, normW2, normB2 tensor.Tensor
}

// Open reads a sentence-transformers folder. compute is the type of weights and products: float32 or bfloat16.
func Open(dir string, compute tensor.DType) (*Encoder, error) {
	f, err := sentence.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := f.Weights()
	if err != nil {
		return nil, err
	}
	e := &Encoder{folder: f, compute: compute, relative: w.Relative}
	if err := tensor.Run(func(s *tensor.Scope) error { e.keep(s, w); return nil }); err != nil {
		e.Free()
		return nil, err
	}
	return e, nil
}

// keep makes tensors of the weights.
func (e *Encoder) keep(s *tensor.Scope, w *sentence.Weights) {
	c := e.folder.Config
	keep := func(x []float32, shape ...int64) (t tensor.Tensor) {
		if x == nil {
			return t
		}
		t = s.Keep(s.To(s.FromFloat32(x, shape...), e.compute))
		e.kept = append(e.kept, t)
		return t
	}
	h, in, a := int64(c.Hidden), int64(c.Inner), c.Heads*c.HeadDim
	e.word, e.pos = keep(w.Word, int64(c.Vocab), h), keep(w.Position, int64(c.Context), h)
	e.normW, e.normB, e.finalNorm = keep(w.NormW, h), keep(w.NormB, h), keep(w.FinalNorm, h)
	for _, l := range w.Layers {
		if !c.PreNorm() { // the queries carry the scale of the scores, which T5 does not have
			scale := float32(1 / math.Sqrt(float64(c.HeadDim)))
			for _, part := range [][]float32{l.QKV[:a*c.Hidden], l.QKVBias[:a]} {
				for i := range part {
					part[i] *= scale
				}
			}
		}
		e.layers = append(e.layers, layer{
			qkv: keep(l.QKV, 3*int64(a), h), qkvB: keep(l.QKVBias, 3*int64(a)), out: keep(l.Out, h, int64(a)),
			outB: keep(l.OutBias, h), normW: keep(l.AttnNormW, h), normB: keep(l.AttnNormB, h), up: keep(l.Up, in, h),
			upB: keep(l.UpBias, in), gate: keep(l.Gate, in, h), down: keep(l.Down, h, in), downB: keep(l.DownBias, h),
			normW2: keep(l.MLPNormW, h), normB2: keep(l.MLPNormB, h),
		})
	}
}

// Free releases the weights.
func (e *Encoder) Free() {
	for _, t := range e.kept {
		t.Free()
	}
	e.kept = nil
}

// Name implements [embedding.Encoder].
func (e *Encoder) Name() string { return e.folder.Name() }

// Dim implements [embedding.Encoder].
func (e *Encoder) Dim() int { return e.folder.Dim() }

// Hash identifies weights, tokenizer and arithmetic, for [embedding.Key].
func (e *Encoder) Hash() string {
	hash := e.folder.Hash + "-" + e.compute.String()
	if tensor.DefaultDevice() != tensor.CPU {
		hash += "-cuda"
	}
	return hash
}

const (
	batchTokens   = 1024 // padded tokens of a batch: enough for fast products, few enough for the processor's cache
	tokenizeTexts = 64   // texts that one task tokenizes

	// The library rounds small and odd products in another way than others. Batches are padded to at least this many
	// columns and tokens, the columns to a multiple of 8, so that a text's float32 vector does not depend on what else is
	// in its batch: clients in shards get the bits of clients in one process.
	leastColumns, leastTokens, columnStep = 16, 512, 8
)

// Encode implements [embedding.Encoder]. The batches depend on the texts alone, and each batch runs on one thread, so
// that the same texts give the same bits on any number of threads.
func (e *Encoder) Encode(texts []string) (embedding.Matrix, error) {
	out := embedding.NewMatrix(len(texts), e.Dim())
	ids := make([][]int32, len(texts))
	var group sync.WaitGroup
	tasks := make(chan int)
	for range min(tensor.Threads(), len(texts)/tokenizeTexts+1) {
		group.Go(func() {
			for from := range tasks {
				for i := from; i < min(from+tokenizeTexts, len(texts)); i++ {
					ids[i] = e.folder.IDs(texts[i])
				}
			}
		})
	}
	for from := 0; from < len(texts); from += tokenizeTexts {
		tasks <- from
	}
	close(tasks)
	group.Wait()

	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(ids[b]) - len(ids[a]) })
	var batches [][]int
	for len(order) > 0 {
		n := min(len(order), max(1, batchTokens/max(1, len(ids[order[0]]))))
		batches = append(batches, order[:n])
		order = order[n:]
	}
	err := tensor.Parallel(len(batches), func(i int, s *tensor.Scope) error {
		return e.batch(s, batches[i], ids, out)
	})
	return out, err
}

// batch encodes the texts that which names, the longest first.
func (e *Encoder) batch(s *tensor.Scope, which []int, ids [][]int32, out embedding.Matrix) error {
	b, t := len(which), len(ids[which[0]])
	if t == 0 { // nothing is in the texts, and no token goes around them: rows of zeros
		return nil
	}
	t = max((t+columnStep-1)/columnStep*columnStep, leastColumns)
	if e.pos.Defined() {
		t = min(t, int(e.pos.Size(0)))
	}
	b = max(b, (leastTokens+t-1)/t)
	flat, share, blocked := make([]int64, b*t), make([]float32, b*t), make([]float32, b*t)
	places := make([]int64, b*t)
	padded := b > len(which)
	for i := range blocked[:len(which)*t] { // rows of padding alone attend to all of it
		blocked[i] = blockedScore
	}
	for row, i := range which {
		before := 0 // tokens that are not padding
		for k, id := range ids[i] {
			at := row*t + k
			flat[at], share[at], blocked[at] = int64(id), e.folder.Share(k, len(ids[i])), 0
			places[at] = int64(e.folder.Config.Position(before, id))
			if int(id) != e.folder.Config.Pad {
				before++
			}
		}
		padded = padded || len(ids[i]) < t
	}
	bb, tt := int64(b), int64(t)
	x := s.Embedding(e.word, s.FromInt64(flat, bb, tt))
	if e.pos.Defined() {
		pos := s.Narrow(e.pos, 0, 0, tt)
		if e.folder.Config.Pad >= 0 {
			pos = s.Embedding(e.pos, s.FromInt64(places, bb, tt))
		}
		x = s.LayerNorm(s.Add(x, pos), e.normW, e.normB, e.folder.Config.NormEps)
	}
	states := e.states(s, x, e.mask(s, blocked, padded, bb, tt))
	pooled := s.Float32s(s.MatMul(s.FromFloat32(share, bb, 1, tt), s.To(states, tensor.Float32))) // [B, 1, H]
	vector := make([]float64, e.folder.Config.Hidden)
	for row, i := range which {
		if len(ids[i]) == 0 {
			continue
		}
		for k := range vector {
			vector[k] = float64(pooled[row*len(vector)+k])
		}
		if err := e.folder.Finish(vector, out.Row(i)); err != nil {
			return err
		}
	}
	return nil
}
