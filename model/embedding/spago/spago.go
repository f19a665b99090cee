// Package spago is the sentence encoders of package torch in pure Go, on spago's matrices: for clients that have no
// libtorch. It builds for every platform without cgo. Texts are concatenated, so that no padding is needed.
package spago

import (
	"runtime"

	"golang.org/x/sync/errgroup"

	"popri/model/embedding"
	"popri/model/embedding/sentence"
)

// Encoder implements [embedding.Encoder].
type Encoder struct {
	folder    *sentence.Folder
	word, pos []float32 // [vocabulary, H]; [context, H], or nil
	norm      layerNorm // of what the layers are given; no weight: none
	relative  []float32 // see [sentence.Config.RelativeBias]
	layers    []layer
	final     layerNorm
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
	norm := func(weight, bias []float32) layerNorm {
		return layerNorm{weight, bias, c.NormEps, c.PreNorm()}
	}
	h, in, a := c.Hidden, c.Inner, c.Heads*c.HeadDim
	e := &Encoder{folder: f, word: w.Word, pos: w.Position, norm: norm(w.NormW, w.NormB), relative: w.Relative,
		final: norm(w.FinalNorm, nil)}
	for _, l := range w.Layers {
		e.layers = append(e.layers, layer{
			qkv: newDense(l.QKV, l.QKVBias, 3*a, h), out: newDense(l.Out, l.OutBias, h, a),
			up: newDense(l.Up, l.UpBias, in, h), gate: newDense(l.Gate, nil, in, h), down: newDense(l.Down, l.DownBias,
				h, in),
			attnNorm: norm(l.AttnNormW, l.AttnNormB), mlpNorm: norm(l.MLPNormW, l.MLPNormB),
		})
	}
	return e, nil
}

// Name implements [embedding.Encoder].
func (e *Encoder) Name() string { return e.folder.Name() }

// Dim implements [embedding.Encoder].
func (e *Encoder) Dim() int { return e.folder.Dim() }

// Hash identifies weights, tokenizer and arithmetic, for [embedding.Key].
func (e *Encoder) Hash() string { return e.folder.Hash + "-spago" }

// batchTokens is about how many tokens one product takes.
const batchTokens = 256

// Encode implements [embedding.Encoder]. A row does not depend on the batch: nothing is padded, and each row of a
// product is computed by itself.
func (e *Encoder) Encode(texts []string) (embedding.Matrix, error) {
	out := embedding.NewMatrix(len(texts), e.Dim())
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for from, to := 0, 0; from < len(texts); from = to {
		var ids [][]int32
		for tokens := 0; to < len(texts) && tokens < batchTokens; to++ {
			ids = append(ids, e.folder.IDs(texts[to]))
			tokens += len(ids[len(ids)-1])
		}
		group.Go(func() error { return e.batch(ids, out.Slice(from, from+len(ids))) })
	}
	return out, group.Wait()
}

// batch encodes the texts with these ids.
func (e *Encoder) batch(ids [][]int32, out embedding.Matrix) error {
	c := e.folder.Config
	h := c.Hidden
	var x []float32
	starts := []int{0}
	for _, text := range ids {
		before := 0 // tokens that are not padding
		for _, id := range text {
			x = append(x, e.word[int(id)*h:][:h]...)
			if e.pos != nil {
				row := x[len(x)-h:]
				for i, p := range e.pos[c.Position(before, id)*h:][:h] {
					row[i] += p
				}
			}
			if int(id) != c.Pad {
				before++
			}
		}
		starts = append(starts, len(x)/h)
	}
	if len(x) == 0 { // nothing is in the texts, and no token goes around them: rows of zeros
		return nil
	}
	if e.norm.weight != nil {
		e.norm.apply(x, nil)
	}
	for i := range e.layers {
		if c.PreNorm() {
			e.preNorm(&e.layers[i], x, starts)
		} else {
			e.postNorm(&e.layers[i], x, starts)
		}
	}
	if e.final.weight != nil {
		e.final.apply(x, nil)
	}
	for t, text := range ids {
		if len(text) == 0 {
			continue
		}
		if err := e.folder.Pool(x[starts[t]*h:starts[t+1]*h], out.Row(t)); err != nil {
			return err
		}
	}
	return nil
}
