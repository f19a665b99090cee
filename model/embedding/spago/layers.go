package spago

import (
	"math"

	"github.com/nlpodyssey/spago/mat"
)

// layer holds one block's weights. T5 has no biases, and the other kinds no gate.
type layer struct {
	qkv, out, up, gate, down dense
	attnNorm, mlpNorm        layerNorm
}

// dense is x·w + bias.
type dense struct {
	w    *mat.Dense[float32] // [in, out]
	bias []float32           // or nil
}

// newDense turns a weight [out, in]; none gives none.
func newDense(w, bias []float32, out, in int) dense {
	if w == nil {
		return dense{}
	}
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
	if d.bias == nil {
		return y
	}
	for at := 0; at < len(y); at += len(d.bias) {
		for i, b := range d.bias {
			y[at+i] += b
		}
	}
	return y
}

type layerNorm struct {
	weight, bias []float32
	eps          float64
	root         bool // T5's: the mean stays, and nothing is added
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
		if n.root {
			mean = 0
		}
		for _, v := range row {
			d := float64(v) - mean
			squares += d * d
		}
		scale := 1 / math.Sqrt(squares/float64(h)+n.eps)
		for i, v := range row {
			row[i] = float32((float64(v)-mean)*scale) * n.weight[i]
			if n.bias != nil {
				row[i] += n.bias[i]
			}
		}
	}
}

// of returns the normalized rows of x.
func (n layerNorm) of(x []float32) []float32 {
	y := append([]float32(nil), x...)
	n.apply(y, nil)
	return y
}

// postNorm is a layer of BERT's kind: x ← norm(x + attention(x)), x ← norm(x + inner(x)). Text t has the rows from
// starts[t] to starts[t+1].
func (e *Encoder) postNorm(l *layer, x []float32, starts []int) {
	l.attnNorm.apply(x, e.attention(l, x, starts))
	l.mlpNorm.apply(x, e.inner(l, x))
}

// preNorm is a layer of T5: x ← x + attention(norm(x)), x ← x + inner(norm(x)).
func (e *Encoder) preNorm(l *layer, x []float32, starts []int) {
	for i, v := range e.attention(l, l.attnNorm.of(x), starts) {
		x[i] += v
	}
	for i, v := range e.inner(l, l.mlpNorm.of(x)) {
		x[i] += v
	}
}

func (e *Encoder) inner(l *layer, x []float32) []float32 {
	up := l.up.apply(x)
	act := gelu
	switch e.folder.Config.Act {
	case "relu":
		act = relu
	case "gelu_new":
		act = geluTanh
	}
	for k, v := range up {
		up[k] = act(v)
	}
	if l.gate.w != nil {
		for k, v := range l.gate.apply(x) {
			up[k] *= v
		}
	}
	return l.down.apply(up)
}

func relu(x float32) float32 { return max(x, 0) }

func gelu(x float32) float32 {
	v := float64(x)
	return float32(0.5 * v * (1 + math.Erf(v/math.Sqrt2)))
}

func geluTanh(x float32) float32 {
	v := float64(x)
	return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
}

func (e *Encoder) attention(l *layer, x []float32, starts []int) []float32 {
	qkv := l.qkv.apply(x)
	width := e.folder.Config.Heads * e.folder.Config.HeadDim
	y := make([]float32, len(qkv)/3)
	for t := range len(starts) - 1 {
		e.attend(qkv[starts[t]*3*width:starts[t+1]*3*width], y[starts[t]*width:starts[t+1]*width])
	}
	return l.out.apply(y)
}

// attend computes the heads' outputs y [T, A] of one text from its queries, keys and values [T, 3·A].
func (e *Encoder) attend(qkv, y []float32) {
	c := e.folder.Config
	d := c.HeadDim
	a := c.Heads * d
	n := len(y) / a
	scale := float32(1)
	if !c.PreNorm() { // T5 does not scale
		scale = float32(1 / math.Sqrt(float64(d)))
	}
	var bias []float32
	if e.relative != nil && n > 0 {
		bias = c.RelativeBias(e.relative, n)
	}
	scores := make([]float32, n)
	for head := range c.Heads {
		for i := range n {
			q := qkv[i*3*a+head*d:][:d]
			most := float32(math.Inf(-1))
			for j := range n {
				k := qkv[j*3*a+a+head*d:][:d]
				var s float32
				for c, v := range q {
					s += v * k[c]
				}
				scores[j] = s * scale
				if bias != nil {
					scores[j] += bias[(head*n+i)*n+j]
				}
				most = max(most, scores[j])
			}
			var sum float32
			for j, s := range scores {
				scores[j] = float32(math.Exp(float64(s - most)))
				sum += scores[j]
			}
			to := y[i*a+head*d:][:d]
			for j, s := range scores {
				v := qkv[j*3*a+2*a+head*d:][:d]
				w := s / sum
				for c := range to {
					to[c] += w * v[c]
				}
			}
		}
	}
}
