// Package torch runs the sentence encoders on libtorch: BERT (Devlin et al. 2018) and its relatives, whose layers
// normalize what they add up to, and T5's encoder (Raffel et al. 2019), whose layers normalize what they are given.
// Texts of similar length form a batch.
package torch

import (
	"math"
	"slices"

	"popri/internal/numeric"
	"popri/internal/parallel"
	"popri/model/embedding"
	"popri/model/embedding/sentence"
	"popri/model/tensor"
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
	packed       []*tensor.Packed // the layers' weights
	fused        []tensor.EncoderLayer
	dense        bool // the texts of a batch are behind each other; else they are padded to one length
}

// layer holds one block's weights. T5 has no biases, and the other kinds no gate.
type layer struct {
	qkv, out, up, gate, down     linear
	normW, normB, normW2, normB2 tensor.Tensor
	addNorm, addNorm2            tensor.Tensor // [3, H]: the bias of out or down, weight and bias of the norm after it
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
	as := func(d tensor.DType, x []float32, shape ...int64) (t tensor.Tensor) {
		if x == nil {
			return t
		}
		t = s.Keep(s.To(s.FromFloat32(x, shape...), d))
		e.kept = append(e.kept, t)
		return t
	}
	keep := func(x []float32, shape ...int64) tensor.Tensor { return as(e.compute, x, shape...) }
	float := e.compute == tensor.Float32 && !tensor.OnDevice() && c.HeadDim%16 == 0 && c.Hidden%16 == 0 && c.Inner%16 == 0
	half := e.compute == tensor.BFloat16 && tensor.CanPack(e.compute) && c.HeadDim%32 == 0
	pack := half || float && tensor.MatrixUnit() // whose products are faster in float32, too
	product := func(w, bias []float32, in, out int64) (l linear) {
		switch {
		case w == nil:
		case pack:
			s.Do(func() { l.packed = s.Pack(s.FromFloat32(w, out, in), false, false, e.compute) })
			e.packed = append(e.packed, l.packed)
			l.bias = as(tensor.Float32, bias, out)
		default:
			l.weight, l.bias = keep(w, out, in), keep(bias, out)
		}
		return l
	}
	h, in, a := int64(c.Hidden), int64(c.Inner), c.Heads*c.HeadDim
	e.dense = half || float
	norm := func(x []float32) tensor.Tensor { return as(tensor.Float32, x, h) }
	e.word, e.pos = keep(w.Word, int64(c.Vocab), h), keep(w.Position, int64(c.Context), h)
	e.normW, e.normB, e.finalNorm = norm(w.NormW), norm(w.NormB), norm(w.FinalNorm)
	for _, l := range w.Layers {
		if !c.PreNorm() { // the queries carry the scale of the scores, which T5 does not have
			scale := float32(1 / math.Sqrt(float64(c.HeadDim)))
			for _, part := range [][]float32{l.QKV[:a*c.Hidden], l.QKVBias[:a]} {
				for i := range part {
					part[i] *= scale
				}
			}
		}
		of := layer{
			qkv: product(l.QKV, l.QKVBias, h, 3*int64(a)), out: product(l.Out, l.OutBias, int64(a), h),
			up: product(l.Up, l.UpBias, h, in), gate: product(l.Gate, nil, h, in),
			down:  product(l.Down, l.DownBias, in, h),
			normW: norm(l.AttnNormW), normB: norm(l.AttnNormB), normW2: norm(l.MLPNormW), normB2: norm(l.MLPNormB),
		}
		if float && !c.PreNorm() {
			of.addNorm = keep(slices.Concat(l.OutBias, l.AttnNormW, l.AttnNormB), 3, h)
			of.addNorm2 = keep(slices.Concat(l.DownBias, l.MLPNormW, l.MLPNormB), 3, h)
		}
		e.layers = append(e.layers, of)
	}
	if !half || c.PreNorm() {
		return
	}
	for _, l := range e.layers {
		e.fused = append(e.fused, tensor.EncoderLayer{QKV: l.qkv.packed, Out: l.out.packed, Up: l.up.packed,
			Down: l.down.packed, QKVBias: l.qkv.bias, OutBias: l.out.bias, UpBias: l.up.bias, DownBias: l.down.bias,
			Norm: l.normW, NormBias: l.normB, Norm2: l.normW2, Norm2Bias: l.normB2})
	}
}

// Free releases the weights.
func (e *Encoder) Free() {
	for _, t := range e.kept {
		t.Free()
	}
	for _, p := range e.packed {
		p.Free()
	}
	e.kept, e.packed = nil, nil
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

	// A text's vector must not depend on what else is in its batch: the noise of a release covers what one client's texts
	// change in the sum, and clients in shards get the bits of clients in one process. The library rounds small and odd
	// products in another way than others. So texts behind each other are padded to leastTokens or more, a multiple of 8.
	// Texts in rows are padded to leastColumns or more, a multiple of 8, and share a batch with texts of the same columns
	// alone, whose number of rows is always the same.
	leastColumns, leastTokens, columnStep = 16, 512, 8
)

// Encode implements [embedding.Encoder]. The batches depend on the texts alone, and each batch runs on one thread, so
// that the same texts give the same bits on any number of threads.
func (e *Encoder) Encode(texts []string) (embedding.Matrix, error) {
	out := embedding.NewMatrix(len(texts), e.Dim())
	ids := make([][]int32, len(texts))
	parallel.Ranges(len(texts), tokenizeTexts, func(from, to int) {
		for i := from; i < to; i++ {
			ids[i] = e.folder.IDs(texts[i])
		}
	})
	batches := numeric.ByLength(len(texts), func(i int) int { return len(ids[i]) }, func(count, longest, shortest int) bool {
		if e.dense {
			return count*max(1, longest) <= batchTokens
		}
		columns := e.columns(longest)
		return count*columns <= batchTokens && e.columns(shortest) == columns
	})
	err := tensor.Parallel(len(batches), func(i int, s *tensor.Scope) error {
		return e.batch(s, batches[i], ids, out)
	})
	return out, err
}

// A batch is the tokens of some texts. Each text has its row of columns tokens, or they are behind each other, and
// texts of padding alone behind them.
type batch struct {
	which          []int // the texts, the longest first
	rows, columns  int   // padded; else 0
	ids, positions []int64
	blocked        []float32 // added to the scores of attention to it
	padded         bool      // some are blocked
	starts         []int32   // of the texts, of texts of padding, and the end of the last one
}

// columns is the length to which a text of n tokens is padded.
func (e *Encoder) columns(n int) int {
	most := max((n+columnStep-1)/columnStep*columnStep, leastColumns)
	if e.pos.Defined() {
		most = min(most, int(e.pos.Size(0)))
	}
	return most
}

// lay lays the tokens of the texts out.
func (e *Encoder) lay(which []int, ids [][]int32) *batch {
	c := e.folder.Config
	b := &batch{which: which}
	total := numeric.Sum(which, func(i int) int { return len(ids[i]) })
	texts := total // tokens that are not padding
	switch {
	case e.dense && e.packed == nil:
		total = max(leastTokens, (total+columnStep-1)/columnStep*columnStep)
	case !e.dense:
		b.columns = e.columns(len(ids[which[0]]))
		b.rows = max(1, batchTokens/b.columns)
		total = b.rows * b.columns
		b.padded = b.rows > len(which)
	}
	b.ids, b.positions = make([]int64, total), make([]int64, total)
	b.blocked = make([]float32, total)
	for i := range len(which) * b.columns { // rows of padding alone attend to all of it
		b.blocked[i] = blockedScore
	}
	for row, i := range which {
		start := row * b.columns
		if e.dense && row > 0 {
			start = int(b.starts[row-1]) + len(ids[which[row-1]])
		}
		b.starts = append(b.starts, int32(start))
		before := 0 // tokens that are not padding
		for k, id := range ids[i] {
			at := start + k
			b.ids[at], b.blocked[at] = int64(id), 0
			b.positions[at] = int64(c.Position(before, id))
			if int(id) != c.Pad {
				before++
			}
		}
		b.padded = b.padded || len(ids[i]) < b.columns
	}
	if e.dense {
		longest := len(ids[which[0]])
		for at := texts; at < total; at += longest {
			b.starts = append(b.starts, int32(at))
		}
	}
	b.starts = append(b.starts, int32(total))
	return b
}

// batch encodes the texts that which names, the longest first.
func (e *Encoder) batch(s *tensor.Scope, which []int, ids [][]int32, out embedding.Matrix) error {
	longest := int64(len(ids[which[0]]))
	if longest == 0 { // nothing is in the texts, and no token goes around them: rows of zeros
		return nil
	}
	b := e.lay(which, ids)
	shape := []int64{int64(b.rows), int64(b.columns)}
	if e.dense {
		shape = []int64{int64(len(b.ids))}
	}
	x := s.Embedding(e.word, s.FromInt64(b.ids, shape...))
	if e.pos.Defined() {
		x = s.FusedLayerNorm(s.Add(x, s.Embedding(e.pos, s.FromInt64(b.positions, shape...))), e.normW, e.normB,
			e.folder.Config.NormEps)
	}
	a := attention{starts: b.starts}
	switch {
	case !e.dense:
		a = e.padded(s, b.blocked, b.padded, shape[0], shape[1])
	case e.relative != nil:
		a.bias = e.bias(s, longest)
	}
	states := s.Contiguous(s.To(e.states(s, x, a), tensor.Float32)).Host()
	hidden := e.folder.Config.Hidden
	for row, i := range which {
		from := int(b.starts[row])
		if len(ids[i]) == 0 {
			continue
		}
		if err := e.folder.Pool(states[from*hidden:(from+len(ids[i]))*hidden], out.Row(i)); err != nil {
			return err
		}
	}
	return nil
}
