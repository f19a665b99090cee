package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"popri/internal/numeric"
)

// Tensor is one named array of the file.
type Tensor struct {
	Name string
	Type Type
	// Shape holds the dimensions, the last one varying fastest: the reverse of the file's order.
	Shape []int64

	offset, bytes int64 // of the blocks in the file that was read, from its start
}

// NumElements returns the number of values.
func (t Tensor) NumElements() int64 { return numeric.Product(t.Shape) }

// Tensors returns the tensors in the file's order. The slice is shared and must not be changed.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

func (f *File) parseTensor(c *cursor) error {
	name := c.text()
	if !utf8.ValidString(name) || name == "" {
		return c.fail(f.bad("a tensor's name, %q, is empty or not UTF-8", name))
	}
	if _, twice := f.byName[name]; twice {
		return c.fail(f.BadTensor(name, "stands twice"))
	}
	dimensions := c.uint32()
	if dimensions == 0 || dimensions > mostDimensions {
		return c.fail(f.BadTensor(name, "has %d dimensions, supported are 1 to %d", dimensions, mostDimensions))
	}
	t := Tensor{Name: name, Shape: make([]int64, dimensions)}
	elements := int64(1)
	for i := range t.Shape {
		n := c.uint64()
		if n == 0 || n > math.MaxInt64 || elements > math.MaxInt64/int64(n) {
			return c.fail(f.BadTensor(name, "dimension %d is %d: the tensor is empty or its size overflows", i, n))
		}
		elements *= int64(n)
		t.Shape[len(t.Shape)-1-i] = int64(n)
	}
	t.Type = Type(c.uint32())
	values, bytes := t.Type.Block()
	if values == 0 {
		return f.BadTensor(name, "the type %s is not supported (supported: %s)", t.Type.String(), typeNames())
	}
	if row := t.Shape[len(t.Shape)-1]; row%int64(values) != 0 {
		return f.BadTensor(name, "rows of %d values are no multiple of the %d of a block of %s", row, values, t.Type.String())
	}
	offset := c.uint64()
	if offset > math.MaxInt64 || elements/int64(values) > math.MaxInt64/int64(bytes) {
		return c.fail(f.BadTensor(name, "offset %d or size overflows", offset))
	}
	t.offset, t.bytes = int64(offset), elements/int64(values)*int64(bytes)
	f.byName[name] = len(f.tensors)
	f.tensors = append(f.tensors, t)
	return c.err
}

// locate finds where the blocks begin, after a header of the given length, and checks that every tensor's are inside
// the file and that no two overlap.
func (f *File) locate(header, size int64) error {
	const key = "general.alignment"
	alignment, ok, err := f.Int(key)
	if err != nil {
		return err
	}
	if !ok {
		alignment = defaultAlignment
	}
	if alignment < 1 || alignment > 1<<20 || alignment&(alignment-1) != 0 {
		return f.Bad(key, "is %d, must be a power of two", alignment)
	}
	start := (header + alignment - 1) / alignment * alignment
	for i := range f.tensors {
		t := &f.tensors[i]
		if t.offset%alignment != 0 {
			return f.BadTensor(t.Name, "its blocks begin at %d, which is no multiple of %s (%d)", t.offset, key, alignment)
		}
		if start > size || t.offset > size-start || t.bytes > size-start-t.offset {
			return f.BadTensor(t.Name, "its %d bytes from byte %d on should be in the file, which has %d: it is "+
				"cut short or damaged", t.bytes, start+t.offset, size)
		}
		t.offset += start
	}
	order := slices.SortedFunc(slices.Values(f.tensors), func(a, b Tensor) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(order); i++ {
		if before := order[i-1]; order[i].offset < before.offset+before.bytes {
			return f.BadTensor(order[i].Name, "its blocks overlap the blocks of %q", before.Name)
		}
	}
	return nil
}

// Reader dequantizes a tensor piece by piece. It is not safe for concurrent use; several readers of a file are.
type Reader struct {
	file    *File
	tensor  Tensor
	scratch []byte
}

// Reader returns a reader of one of the file's tensors.
func (f *File) Reader(t Tensor) *Reader { return &Reader{file: f, tensor: t} }

// Read fills dst with the values from first on, in row-major order. first and the length of dst must be multiples of
// the values of a block.
func (r *Reader) Read(dst []float32, first int64) error {
	values, bytes := r.tensor.Type.Block()
	n, total := int64(len(dst)), r.tensor.NumElements()
	if first < 0 || first%int64(values) != 0 || n%int64(values) != 0 || first > total || n > total-first {
		return fmt.Errorf("gguf: %s: tensor %q: values %d to %d of %d are no whole blocks of %s", r.file.path,
			r.tensor.Name, first, first+n, total, r.tensor.Type)
	}
	size := len(dst) / values * bytes
	if cap(r.scratch) < size {
		r.scratch = make([]byte, size)
	}
	blocks := r.scratch[:size]
	if _, err := r.file.source.ReadAt(blocks, r.tensor.offset+first/int64(values)*int64(bytes)); err != nil {
		return fmt.Errorf("gguf: %s: tensor %q: %w", r.file.path, r.tensor.Name, err)
	}
	return Dequantize(r.tensor.Type, dst, blocks)
}
