package convert

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"popri/model/gguf"
	"popri/model/safetensors"
)

// weight is a tensor of the model that is written, and where it comes from.
type weight struct {
	name      string // in model.safetensors
	source    gguf.Tensor
	shape     []int64 // that is written
	dtype     safetensors.DType
	transpose bool // the source is [shape[1], shape[0]]
	// rotary, where not 0, is the width D of the heads of queries or keys whose rotary pairs lie side by side in the
	// source: row 2j+s of a head there is row s·D/2+j here.
	rotary int64
	shift  float32 // is added to each value
}

// piece is the number of values that are converted at a time.
const piece = 1 << 16

// tensors collects an architecture's weights.
type tensors struct {
	r    *reader
	list []weight
	norm weight // what is done with the weights of norms
}

// has reports whether the file has a tensor.
func (t *tensors) has(source string) bool { _, ok := t.r.file.Tensor(source); return ok }

// add takes the tensor source of the file as name. A tensor that is missing or has another shape is noted.
func (t *tensors) add(name, source string, w weight, shape ...int64) {
	f := t.r.file
	x, ok := f.Tensor(source)
	if !ok {
		t.r.note(f.BadTensor(source, "is missing"))
		return
	}
	stored := shape
	if w.transpose {
		stored = []int64{shape[1], shape[0]}
	}
	if !slices.Equal(x.Shape, stored) {
		t.r.note(f.BadTensor(source, "has the shape %v, the metadata make it %v", x.Shape, stored))
		return
	}
	w.name, w.source, w.shape = name, x, shape
	t.list = append(t.list, w)
}

// leftover refuses tensors of the file that no weight comes from.
func leftover(f *gguf.File, weights []weight) error {
	long := f.Has(partial + "context_length")
	used := map[string]bool{ropeFactors: true, longFactors: long, shortFactors: long}
	for _, w := range weights {
		used[w.source.Name] = true
	}
	for _, t := range f.Tensors() {
		if !used[t.Name] {
			return f.BadTensor(t.Name, "does not belong to a model of this architecture")
		}
	}
	return nil
}

// writeWeights writes model.safetensors.
func (m *model) writeWeights(ctx context.Context, path string, progress func(done, total int)) error {
	var streams []safetensors.Stream
	done := 0
	for _, w := range m.weights {
		streams = append(streams, safetensors.Stream{Name: w.name, DType: w.dtype, Shape: w.shape,
			Write: func(out io.Writer) error {
				c := &converter{ctx: ctx, file: m.file, weight: w, out: out}
				if err := c.run(); err != nil {
					return err
				}
				if done++; progress != nil {
					progress(done, len(m.weights))
				}
				return nil
			}})
	}
	return safetensors.WriteStreams(path, streams, map[string]string{"format": "pt"})
}

// converter writes the values of one weight.
type converter struct {
	ctx    context.Context
	file   *gguf.File
	weight weight
	out    io.Writer
	bytes  []byte
}

func (c *converter) run() error {
	r, total := c.file.Reader(c.weight.source), c.weight.source.NumElements()
	switch {
	case c.weight.transpose:
		return c.transposed(r, total)
	case c.weight.rotary > 0:
		return c.rotary(r)
	}
	values := make([]float32, min(piece, total))
	for at := int64(0); at < total; at += int64(len(values)) {
		values = values[:min(int64(len(values)), total-at)]
		if err := r.Read(values, at); err != nil {
			return err
		}
		if c.weight.shift != 0 {
			for i := range values {
				values[i] += c.weight.shift
			}
		}
		if err := c.emit(values); err != nil {
			return err
		}
	}
	return nil
}

// transposed reads all of a matrix, which is the most that lies in memory at once.
func (c *converter) transposed(r *gguf.Reader, total int64) error {
	values := make([]float32, total)
	if err := r.Read(values, 0); err != nil {
		return err
	}
	rows, columns := c.weight.shape[0], c.weight.shape[1]
	row := make([]float32, columns)
	for i := range rows {
		for j := range columns {
			row[j] = values[j*rows+i]
		}
		if err := c.emit(row); err != nil {
			return err
		}
	}
	return nil
}

// rotary writes the rows of each head in the order of the two halves. A bias has rows of one value, which can be less
// than a block, so a head is read at once.
func (c *converter) rotary(r *gguf.Reader) error {
	width := int64(1)
	if len(c.weight.shape) == 2 {
		width = c.weight.shape[1]
	}
	d := c.weight.rotary
	head, ordered := make([]float32, d*width), make([]float32, d*width)
	for first := int64(0); first < c.weight.shape[0]; first += d {
		if err := r.Read(head, first*width); err != nil {
			return err
		}
		for row := range d {
			from := row%(d/2)*2 + row/(d/2)
			copy(ordered[row*width:(row+1)*width], head[from*width:(from+1)*width])
		}
		if err := c.emit(ordered); err != nil {
			return err
		}
	}
	return nil
}

// emit writes values, which must be finite and fit the type.
func (c *converter) emit(values []float32) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	for _, v := range values {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return c.file.BadTensor(c.weight.source.Name, "holds the value %v, which is not a finite number", v)
		} else if d := c.weight.dtype; d == safetensors.F16 && math.Abs(f) >= 65520 ||
			d == safetensors.BF16 && math.Abs(f) > 3.39e38 {
			return c.file.BadTensor(c.weight.source.Name,
				"holds the value %v, which does not fit %s: choose --dtype float32", v, d)
		}
	}
	c.bytes = safetensors.AppendFloat32s(c.bytes[:0], c.weight.dtype, values)
	if _, err := c.out.Write(c.bytes); err != nil {
		return fmt.Errorf("tensor %s: %w", c.weight.name, err)
	}
	return nil
}
