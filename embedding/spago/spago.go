// Package spago is the sentence encoder of package bert in pure Go, on spago's matrices: for clients that have no
// libtorch. It builds for every platform without cgo. Texts are concatenated, so that no padding is needed.
package spago

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/nlpodyssey/spago/mat"

	"popri/embedding"
	"popri/embedding/sentence"
)

// Encoder implements [embedding.Encoder].
type Encoder struct {
	folder      *sentence.Folder
	word, pos   []float32 // [vocabulary, H], [context, H]
	norm        layerNorm
	layers      []layer
	heads, dim  int
	parallelism int
}

type layer struct {
	qkv, out, up, down dense
	attnNorm, mlpNorm  layerNorm
}

// dense is x·w + bias.
type dense struct {
	w    *mat.Dense[float32] // [in, out]
	bias []float32
}

type layerNorm struct {
	weight, bias []float32
	eps          float64
}

// Open reads a sentence-transformers folder.
func Open(dir string) (*Encoder, error) {
	f, err := sentence.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := f.Weights()
	if err != nil {
		return nil, err
	}
	c := f.Config
	h, in := c.Hidden, c.Inner
	e := &Encoder{folder: f, word: w.Word, pos: w.Position, norm: layerNorm{w.NormW, w.NormB, c.NormEps},
		heads: c.Heads, dim: h / c.Heads, parallelism: runtime.GOMAXPROCS(0)}
	for _, l := range w.Layers {
		e.layers = append(e.layers, layer{
			qkv: newDense(l.QKV, l.QKVBias, 3*h, h), out: newDense(l.Out, l.OutBias, h, h),
			up: newDense(l.Up, l.UpBias, in, h), down: newDense(l.Down, l.DownBias, h, in),
			attnNorm: layerNorm{l.AttnNormW, l.AttnNormB, c.NormEps}, mlpNorm: layerNorm{l.MLPNormW, l.MLPNormB, c.NormEps},
		})
	}
	return e, nil
}

// newDense turns a weight [out, in].
func newDense(w, bias []float32, out, in int) dense {
	turned := make([]float32, len(w))
	for o := range out {
		for i := range in {
			turned[i*out+o] = w[o*in+i]
		}
	}
	return dense{mat.NewDense[float32](mat.WithShape(in, out), mat.WithBacking(turned)), bias}
}

// apply maps rows of x to rows of the result.
func (d dense) apply(x []float32) []float32 {
	in := d.w.Shape()[0]
	y := mat.Data[float32](mat.NewDense[float32](mat.WithShape(len(x)/in, in), mat.WithBacking(x)).Mul(d.w))
	for at := 0; at < len(y); at += len(d.bias) {
		for i, b := range d.bias {
			y[at+i] += b
		}
	}
	return y
}

// apply normalises the rows of x + y into x.
func (n layerNorm) apply(x, y []float32) {
	h := len(n.weight)
	for at := 0; at < len(x); at += h {
		row := x[at : at+h]
		var sum, squares float64
		for i := range row {
			if y != nil {
				row[i] += y[at+i]
			}
			sum += float64(row[i])
		}
		mean := sum / float64(h)
		for _, v := range row {
			d := float64(v) - mean
			squares += d * d
		}
		scale := 1 / math.Sqrt(squares/float64(h)+n.eps)
		for i, v := range row {
			row[i] = float32((float64(v)-mean)*scale)*n.weight[i] + n.bias[i]
		}
	}
}

// Name implements [embedding.Encoder].
func (e *Encoder) Name() string { return e.folder.Name() }

// Dim implements [embedding.Encoder].
func (e *Encoder) Dim() int { return e.heads * e.dim }

// Hash identifies weights, tokenizer and arithmetic, for [embedding.Key].
func (e *Encoder) Hash() string { return e.folder.Hash + "-spago" }

// batchTokens is about how many tokens one product takes.
const batchTokens = 256

// Encode implements [embedding.Encoder]. A row does not depend on the batch: nothing is padded, and each row of a product
// is computed by itself.
func (e *Encoder) Encode(texts []string) (embedding.Matrix, error) {
	out := embedding.NewMatrix(len(texts), e.Dim())
	var next atomic.Int64
	errs := make([]error, len(texts))
	var group sync.WaitGroup
	var lock sync.Mutex
	take := func() (ids [][]int32, from int) {
		lock.Lock()
		defer lock.Unlock()
		from = int(next.Load())
		tokens := 0
		for i := from; i < len(texts) && tokens < batchTokens; i++ {
			ids = append(ids, e.folder.IDs(texts[i]))
			tokens += len(ids[len(ids)-1])
		}
		next.Add(int64(len(ids)))
		return ids, from
	}
	for range min(e.parallelism, len(texts)) {
		group.Go(func() {
			for {
				ids, from := take()
				if len(ids) == 0 {
					return
				}
				errs[from] = e.batch(ids, out.Slice(from, from+len(ids)))
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (e *Encoder) batch(ids [][]int32, out embedding.Matrix) error {
	h := e.Dim()
	var x []float32
	starts := []int{0}
	for _, text := range ids {
		for p, id := range text {
			word, pos := e.word[int(id)*h:][:h], e.pos[p*h:][:h]
			for i := range h {
				x = append(x, word[i]+pos[i])
			}
		}
		starts = append(starts, len(x)/h)
	}
	e.norm.apply(x, nil)
	for i := range e.layers {
		l := &e.layers[i]
		qkv := l.qkv.apply(x)
		y := make([]float32, len(x))
		for t := range ids {
			e.attend(qkv[starts[t]*3*h:starts[t+1]*3*h], y[starts[t]*h:starts[t+1]*h])
		}
		l.attnNorm.apply(x, l.out.apply(y))
		up := l.up.apply(x)
		for k, v := range up {
			up[k] = gelu(v)
		}
		l.mlpNorm.apply(x, l.down.apply(up))
	}
	for t := range ids {
		rows := x[starts[t]*h : starts[t+1]*h]
		mean := make([]float64, h)
		for i, v := range rows {
			mean[i%h] += float64(v)
		}
		sum := 0.0
		for _, v := range mean {
			sum += v * v
		}
		length := math.Sqrt(sum)
		if !(length > 0) || math.IsInf(length, 0) {
			return fmt.Errorf("embedding: %s: a text of %d tokens has a vector of length %g", e.folder.Dir, len(ids[t]), length)
		}
		for i, v := range mean {
			out.Row(t)[i] = float32(v / length)
		}
	}
	return nil
}

func gelu(x float32) float32 {
	v := float64(x)
	return float32(0.5 * v * (1 + math.Erf(v/math.Sqrt2)))
}

// attend computes the heads' outputs y [T, H] of one text from its queries, keys and values [T, 3·H].
func (e *Encoder) attend(qkv, y []float32) {
	h, d := e.Dim(), e.dim
	n := len(y) / h
	scale := float32(1 / math.Sqrt(float64(d)))
	scores := make([]float32, n)
	for head := range e.heads {
		for i := range n {
			q := qkv[i*3*h+head*d:][:d]
			most := float32(math.Inf(-1))
			for j := range n {
				k := qkv[j*3*h+h+head*d:][:d]
				var s float32
				for c, v := range q {
					s += v * k[c]
				}
				scores[j] = s * scale
				most = max(most, scores[j])
			}
			var sum float32
			for j, s := range scores {
				scores[j] = float32(math.Exp(float64(s - most)))
				sum += scores[j]
			}
			to := y[i*h+head*d:][:d]
			for j, s := range scores {
				v := qkv[j*3*h+2*h+head*d:][:d]
				w := s / sum
				for c := range to {
					to[c] += w * v[c]
				}
			}
		}
	}
}
