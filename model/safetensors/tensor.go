package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"popri/internal/numeric"
)

// Tensor is one named array.
type Tensor struct {
	Name  string
	DType DType
	// Shape holds the dimensions, the last one varying fastest; empty for a scalar.
	Shape []int64
	// Data holds the values in row-major order, little endian. In a tensor from [Open] it is a view of the mapped
	// file: read-only (a write faults), valid until Close, and not necessarily aligned to the size of a value.
	Data []byte
}

// NumElements returns the product of the shape, 1 for a scalar.
func (t Tensor) NumElements() int { return len(t.Data) / t.DType.Size() }

// Float32s returns a copy of the values as float32. F64 is rounded; integers are refused.
func (t Tensor) Float32s() ([]float32, error) {
	n, err := t.count("float32", t.DType.IsFloat())
	if err != nil {
		return nil, err
	}
	out := make([]float32, n)
	switch data := t.Data; t.DType {
	case F32:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case F16:
		for i := range out {
			out[i] = Float32FromF16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case BF16:
		for i := range out {
			out[i] = float32FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	case F64:
		for i := range out {
			out[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
		}
	}
	return out, nil
}

// Float64s returns a copy of the values as float64; integers are refused.
func (t Tensor) Float64s() ([]float64, error) {
	n, err := t.count("float64", t.DType.IsFloat())
	if err != nil {
		return nil, err
	}
	if t.DType == F64 {
		return numeric.Tabulate(n, func(i int) float64 {
			return math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
		}), nil
	}
	narrow, err := t.Float32s()
	return numeric.Convert[float64](narrow), err
}

// Int64s returns a copy of the values of a tensor of type I64.
func (t Tensor) Int64s() ([]int64, error) {
	n, err := t.count("int64", t.DType == I64)
	if err != nil {
		return nil, err
	}
	return numeric.Tabulate(n, func(i int) int64 { return int64(binary.LittleEndian.Uint64(t.Data[8*i:])) }), nil
}

// CheckFinite returns an error that names the tensor and the first value that is NaN or infinite. Integers pass.
func (t Tensor) CheckFinite() error {
	if err := t.check(); err != nil {
		return err
	}
	// A float is NaN or infinite exactly if its exponent bits are all ones. They are in its upper two bytes.
	mask := map[DType]uint16{F64: 0x7ff0, F32: 0x7f80, BF16: 0x7f80, F16: 0x7c00}[t.DType]
	if mask == 0 {
		return nil
	}
	bad, size := -1, t.DType.Size()
	for i := size - 2; i < len(t.Data); i += size {
		if binary.LittleEndian.Uint16(t.Data[i:])&mask == mask {
			bad = i / size
			break
		}
	}
	if bad < 0 {
		return nil
	}
	value, err := Tensor{Name: t.Name, DType: t.DType, Shape: []int64{1}, Data: t.Data[bad*size : (bad+1)*size]}.Float64s()
	if err != nil {
		return err
	}
	return fmt.Errorf("safetensors: tensor %q %v: value %d (at %v) is %v, not a finite number",
		t.Name, t.Shape, bad, indexOf(bad, t.Shape), value[0])
}

// indexOf converts a position in row-major order into one index for each dimension.
func indexOf(position int, shape []int64) []int64 {
	index := make([]int64, len(shape))
	rest := int64(position)
	for d, n := range slices.Backward(shape) {
		index[d], rest = rest%n, rest/n
	}
	return index
}

// count checks the tensor and returns its number of values.
func (t Tensor) count(as string, convertible bool) (int, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	if !convertible {
		return 0, fmt.Errorf("safetensors: tensor %q is %s and cannot be read as %s", t.Name, t.DType, as)
	}
	return t.NumElements(), nil
}

// check reports a type that is not supported or a shape that does not agree with the data; tensors from [Open] pass.
func (t Tensor) check() error {
	if t.DType.Size() == 0 {
		return fmt.Errorf("safetensors: tensor %q: data type %q is not supported (supported: %v)", t.Name, t.DType, layoutOrder)
	}
	bytes, err := byteSize(t.DType, t.Shape)
	if err != nil {
		return fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
	}
	if bytes != int64(len(t.Data)) {
		return fmt.Errorf("safetensors: tensor %q: shape %v of %s takes %d bytes, but there are %d", t.Name,
			t.Shape, t.DType, bytes, len(t.Data))
	}
	return nil
}

// byteSize returns the bytes of a tensor, or an error for a negative dimension or a product beyond int64.
func byteSize(d DType, shape []int64) (int64, error) {
	total := int64(d.Size())
	for i, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v: dimension %d is negative", shape, i)
		}
		// A zero anywhere makes the tensor empty, but the other dimensions must not overflow before it.
		if n != 0 && total > math.MaxInt64/n {
			return 0, fmt.Errorf("shape %v of %s overflows", shape, d)
		}
		total *= n
	}
	return total, nil
}

// FromFloat32 makes a tensor of type F32. It copies data, which must have as many values as shape says; [Write] returns
// an error otherwise.
func FromFloat32(name string, shape []int64, data []float32) Tensor {
	return FromFloat32As(name, shape, data, F32)
}

// FromFloat32As makes a tensor of a floating-point type; F16 and BF16 round to the nearest value, ties to even. For a
// type that is not a float, the tensor has no data, and [Write] refuses it.
func FromFloat32As(name string, shape []int64, data []float32, d DType) Tensor {
	t := Tensor{Name: name, DType: d, Shape: slices.Clone(shape)}
	if d.IsFloat() {
		t.Data = AppendFloat32s(make([]byte, 0, len(data)*d.Size()), d, data)
	}
	return t
}

// AppendFloat32s appends the bytes of values as a tensor of the floating-point type d holds them. F16 and BF16 round to
// the nearest value, ties to even; a value past the largest half becomes infinite. A type that is not a float appends
// nothing.
func AppendFloat32s(out []byte, d DType, data []float32) []byte {
	switch d {
	case F32:
		for _, v := range data {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	case F16:
		for _, v := range data {
			out = binary.LittleEndian.AppendUint16(out, f16FromFloat32(v))
		}
	case BF16:
		for _, v := range data {
			out = binary.LittleEndian.AppendUint16(out, bf16FromFloat32(v))
		}
	case F64:
		for _, v := range data {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(v)))
		}
	}
	return out
}

// FromFloat64 makes a tensor of type F64 from a copy of data.
func FromFloat64(name string, shape []int64, data []float64) Tensor {
	t := Tensor{Name: name, DType: F64, Shape: slices.Clone(shape), Data: make([]byte, 8*len(data))}
	for i, v := range data {
		binary.LittleEndian.PutUint64(t.Data[8*i:], math.Float64bits(v))
	}
	return t
}

// FromInt64 makes a tensor of type I64 from a copy of data.
func FromInt64(name string, shape []int64, data []int64) Tensor {
	t := Tensor{Name: name, DType: I64, Shape: slices.Clone(shape), Data: make([]byte, 8*len(data))}
	for i, v := range data {
		binary.LittleEndian.PutUint64(t.Data[8*i:], uint64(v))
	}
	return t
}
