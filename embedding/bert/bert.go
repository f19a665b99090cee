// Package bert is the sentence encoder on libtorch: BERT (Devlin et al. 2018) with the mean of the tokens' last states,
// scaled to unit length (Reimers and Gurevych 2019). Texts of similar length form a batch.
package bert

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"popri/embedding"
	"popri/embedding/sentence"
	"popri/tensor"
)

// Encoder implements [embedding.Encoder]. Free releases it.
type Encoder struct {
	folder  *sentence.Folder
	compute tensor.DType
	word    tensor.Tensor // [vocabulary, H]
	pos     tensor.Tensor // [context, H]
	normW   tensor.Tensor
	normB   tensor.Tensor
	layers  []layer
	kept    []tensor.Tensor
}

// layer holds one block's weights; matrices are [out, in].
type layer struct {
	qkv, qkvB, out, outB, normW, normB   tensor.Tensor
	up, upB, down, downB, normW2, normB2 tensor.Tensor
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
	e := &Encoder{folder: f, compute: compute}
	c := f.Config
	h, in := int64(c.Hidden), int64(c.Inner)
	// The queries carry the scale of the scores.
	scale := float32(1 / math.Sqrt(float64(c.Hidden/c.Heads)))
	err = tensor.Run(func(s *tensor.Scope) error {
		keep := func(x []float32, shape ...int64) tensor.Tensor {
			t := s.Keep(s.To(s.FromFloat32(x, shape...), compute))
			e.kept = append(e.kept, t)
			return t
		}
		e.word, e.pos = keep(w.Word, int64(c.Vocab), h), keep(w.Position, int64(c.Context), h)
		e.normW, e.normB = keep(w.NormW, h), keep(w.NormB, h)
		for _, l := range w.Layers {
			for _, part := range [][]float32{l.QKV[:c.Hidden*c.Hidden], l.QKVBias[:c.Hidden]} {
				for i := range part {
					part[i] *= scale
				}
			}
			e.layers = append(e.layers, layer{
				qkv: keep(l.QKV, 3*h, h), qkvB: keep(l.QKVBias, 3*h), out: keep(l.Out, h, h), outB: keep(l.OutBias, h),
				normW: keep(l.AttnNormW, h), normB: keep(l.AttnNormB, h),
				up: keep(l.Up, in, h), upB: keep(l.UpBias, in), down: keep(l.Down, h, in), downB: keep(l.DownBias, h),
				normW2: keep(l.MLPNormW, h), normB2: keep(l.MLPNormB, h),
			})
		}
		return nil
	})
	if err != nil {
		e.Free()
		return nil, err
	}
	return e, nil
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
func (e *Encoder) Dim() int { return e.folder.Config.Hidden }

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
		n := min(len(order), max(1, batchTokens/len(ids[order[0]])))
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
	flat, share, blocked := make([]int64, b*t), make([]float32, b*t), make([]float32, b*t)
	padded := false
	for row, i := range which {
		for k := range t {
			if k < len(ids[i]) {
				flat[row*t+k], share[row*t+k] = int64(ids[i][k]), 1/float32(len(ids[i]))
			} else {
				blocked[row*t+k], padded = -1e30, true
			}
		}
	}
	bb, tt, h, heads := int64(b), int64(t), int64(e.Dim()), int64(e.folder.Config.Heads)
	eps := e.folder.Config.NormEps
	x := s.Add(s.Embedding(e.word, s.FromInt64(flat, bb, tt)), s.Narrow(e.pos, 0, 0, tt))
	x = s.LayerNorm(x, e.normW, e.normB, eps)
	var mask tensor.Tensor
	if padded {
		mask = s.To(s.FromFloat32(blocked, bb, 1, 1, tt), e.compute)
	}
	for _, l := range e.layers {
		x = s.Nest(func() tensor.Tensor {
			qkv := s.View(s.Linear(x, l.qkv, l.qkvB), bb, tt, 3, heads, h/heads)
			parts := s.Unbind(s.Permute(qkv, 2, 0, 3, 1, 4), 0)
			scores := s.MatMul(parts[0], s.Transpose(parts[1], 2, 3))
			if padded {
				scores = s.Add(scores, mask)
			}
			y := s.MatMul(s.Softmax(scores, -1), parts[2])
			y = s.Reshape(s.Transpose(y, 1, 2), bb, tt, h)
			y = s.LayerNorm(s.Add(x, s.Linear(y, l.out, l.outB)), l.normW, l.normB, eps)
			z := s.Linear(s.Gelu(s.Linear(y, l.up, l.upB)), l.down, l.downB)
			return s.LayerNorm(s.Add(y, z), l.normW2, l.normB2, eps)
		})
	}
	mean := s.MatMul(s.FromFloat32(share, bb, 1, tt), s.To(x, tensor.Float32)) // [B, 1, H]
	values := s.Float32s(mean)
	for row, i := range which {
		v := values[row*int(h) : (row+1)*int(h)]
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		norm := math.Sqrt(sum)
		if !(norm > 0) || math.IsInf(norm, 0) {
			return fmt.Errorf("embedding: %s: a text of %d tokens has a vector of length %g", e.folder.Dir, len(ids[i]), norm)
		}
		for k, x := range v {
			out.Row(i)[k] = float32(float64(x) / norm)
		}
	}
	return nil
}
