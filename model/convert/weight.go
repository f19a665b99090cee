package convert

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"popri/internal/numeric"
	"popri/model/gguf"
	"popri/model/safetensors"
)

// weight is a tensor of a model: as the folder has it, and as the file has it.
type weight struct {
	name      string // in the folder
	shape     []int64
	from      safetensors.Tensor // in an export
	source    gguf.Tensor        // in the file; an export settles its type
	dtype     safetensors.DType  // in the folder that an import writes
	transpose bool               // the file's is [shape[1], shape[0]]
	// rotary, where not 0, is the width D of the heads of queries or keys whose rotary pairs are side by side in the
	// file: row 2j+s of a head there is row s·D/2+j here.
	rotary int64
	shift  float32 // an import adds it to each value, an export subtracts it
}

// The names of tensors of the file that are no projections, as far as more than one architecture or rule needs them.
const embedding, output, positions = "token_embd.weight", "output.weight", "position_embd.weight"

// piece is the number of values that are converted at a time.
const piece = 1 << 16

// tensors collects an architecture's weights.
type tensors struct {
	*codec
	list []weight
	norm weight // what is done with the weights of norms
}

// stored reports whether the file of an import has a tensor.
func (t *tensors) stored(source string) (ok bool) {
	if !t.exports() {
		_, ok = t.file.Tensor(source)
	}
	return ok
}

// add pairs the tensor source of the file with name in the folder. One that is missing or has another shape is noted.
func (t *tensors) add(name, source string, w weight, shape ...int64) {
	stored := shape
	if w.transpose {
		stored = []int64{shape[1], shape[0]}
	}
	w.name, w.shape, w.source = name, shape, gguf.Tensor{Name: source, Shape: stored}
	have, want, ok := []int64(nil), stored, false
	if t.exports() {
		w.from, ok = t.folder.Tensors[name]
		have, want = w.from.Shape, shape
	} else if x, there := t.file.Tensor(source); there {
		w.source, have, ok = x, x.Shape, true
	}
	switch {
	case !ok:
		t.note(t.badTensor(w, "is missing"))
	case !slices.Equal(have, want):
		t.note(t.badTensor(w, "has the shape %v, the configuration makes it %v", have, want))
	default:
		t.list = append(t.list, w)
	}
}

// badTensor returns an error about the weight that is read.
func (c *codec) badTensor(w weight, format string, args ...any) error {
	if c.exports() {
		return c.folder.badTensor(w.name, format, args...)
	}
	return c.file.BadTensor(w.source.Name, format, args...)
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
		c := converter{codec: m.codec, weight: w, kind: string(w.dtype), read: m.codec.file.Reader(w.source).Read,
			append: func(out []byte, values []float32) []byte { return safetensors.AppendFloat32s(out, w.dtype, values) }}
		streams = append(streams, safetensors.Stream{Name: w.name, DType: w.dtype, Shape: w.shape,
			Write: c.write(ctx, &done, len(m.weights), progress)})
	}
	return safetensors.WriteStreams(path, streams, map[string]string{"format": "pt"})
}

// converter writes the values of one weight, as an import or as an export.
type converter struct {
	*codec
	weight weight
	read   func(dst []float32, first int64) error
	append func(out []byte, values []float32) []byte // encodes values
	kind   string                                    // the type that they get

	ctx   context.Context
	out   io.Writer
	bytes []byte
}

// write returns what writes the weight's stream; done counts those that are written.
func (c converter) write(ctx context.Context, done *int, total int, progress func(done, total int)) func(io.Writer) error {
	return func(out io.Writer) error {
		c.ctx, c.out = ctx, out
		if err := c.run(); err != nil {
			return err
		}
		if *done++; progress != nil {
			progress(*done, total)
		}
		return nil
	}
}

func (c *converter) run() error {
	total, shift := c.weight.source.NumElements(), c.weight.shift
	switch {
	case c.weight.transpose:
		return c.transposed(total)
	case c.weight.rotary > 0:
		return c.rotary()
	case c.exports():
		shift = -shift
	}
	values := make([]float32, min(piece, total))
	for at := int64(0); at < total; at += int64(len(values)) {
		values = values[:min(int64(len(values)), total-at)]
		if err := c.read(values, at); err != nil {
			return err
		}
		for i := range values {
			values[i] += shift
		}
		if err := c.emit(values); err != nil {
			return err
		}
	}
	return nil
}

// transposed reads all of a matrix, which is the most that is in memory at once.
func (c *converter) transposed(total int64) error {
	values := make([]float32, total)
	if err := c.read(values, 0); err != nil {
		return err
	}
	rows, columns := c.weight.shape[0], c.weight.shape[1]
	if c.exports() {
		rows, columns = columns, rows
	}
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

// rotary writes the rows of each head in the order of the two halves, or in an export of the pairs. A bias has rows of one value, which can be less
// than a block, so a head is read at once.
func (c *converter) rotary() error {
	width := int64(1)
	if len(c.weight.shape) == 2 {
		width = c.weight.shape[1]
	}
	d := c.weight.rotary
	head, ordered := make([]float32, d*width), make([]float32, d*width)
	for first := int64(0); first < c.weight.shape[0]; first += d {
		if err := c.read(head, first*width); err != nil {
			return err
		}
		for row := range d {
			to, from := row, row%(d/2)*2+row/(d/2)
			if c.exports() {
				to, from = from, to
			}
			copy(ordered[to*width:(to+1)*width], head[from*width:(from+1)*width])
		}
		if err := c.emit(ordered); err != nil {
			return err
		}
	}
	return nil
}

// limits are what the absolute values of a type stay below, by its name. A block's scale is a half, too.
var limits = map[string]float64{"F16": 65520, "BF16": 3.39e38, "Q8_0": 127 * 65520, "Q4_0": 8 * 65520}

// emit writes values, which must be finite and fit the type.
func (c *converter) emit(values []float32) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	limit, limited := limits[c.kind]
	for _, v := range values {
		if !numeric.Finite(v) {
			return c.badTensor(c.weight, "holds the value %v, which is not a finite number", v)
		} else if limited && math.Abs(float64(v)) >= limit {
			return c.badTensor(c.weight, "holds the value %v, which does not fit %s: choose %s", v, c.kind,
				map[bool]string{false: "--dtype float32", true: "--gguf f32"}[c.exports()])
		}
	}
	c.bytes = c.append(c.bytes[:0], values)
	if _, err := c.out.Write(c.bytes); err != nil {
		return fmt.Errorf("tensor %s: %w", c.weight.name, err)
	}
	return nil
}
