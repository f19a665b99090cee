package gguf

import (
	"encoding/binary"
	"math"
	"strconv"

	"popri/internal/quote"
)

// kind is the type of a metadata value, by the format's number.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindText
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

var kindNames = [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "text", "array",
	"uint64", "int64", "float64"}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "type " + strconv.FormatUint(uint64(k), 10)
}

// size returns the bytes of a value of fixed size, 0 for texts and arrays.
func (k kind) size() uint64 {
	switch k {
	case kindUint8, kindInt8, kindBool:
		return 1
	case kindUint16, kindInt16:
		return 2
	case kindUint32, kindInt32, kindFloat32:
		return 4
	case kindUint64, kindInt64, kindFloat64:
		return 8
	}
	return 0
}

func (k kind) integer() bool {
	return k.size() > 0 && k != kindBool && k != kindFloat32 && k != kindFloat64
}

// value is one metadata value, or an array of them. Numbers stay the bytes of the file, so that an array takes no more
// memory than it does there.
type value struct {
	kind  kind // of one element
	array bool
	count int
	raw   []byte   // of numbers and booleans
	texts []string // of texts
}

func (c *cursor) value(key string, k kind) (value, error) {
	v := value{kind: k, count: 1}
	if k == kindArray {
		number, err := c.uint32()
		if err != nil {
			return v, err
		}
		n, err := c.uint64()
		if err != nil {
			return v, err
		}
		v.kind, v.array = kind(number), true
		if v.kind == kindArray {
			return v, c.file.Bad(key, "is an array of arrays, which is not supported")
		}
		least := max(v.kind.size(), 1)
		if v.kind == kindText {
			least = 8 // of its length
		}
		if err := c.fits(v.kind.String()+" in "+quote.Raw(key), n, least); err != nil {
			return v, err
		}
		v.count = int(n)
	}
	switch size := v.kind.size(); {
	case v.kind == kindText:
		for range v.count {
			text, err := c.text()
			if err != nil {
				return v, err
			}
			v.texts = append(v.texts, text)
		}
		return v, nil
	case size > 0:
		var err error
		v.raw, err = c.take(uint64(v.count) * size)
		return v, err
	}
	return v, c.file.Bad(key, "has a value of unknown type (%s)", v.kind.String())
}

// integer returns element i. ok is false for a number past int64.
func (v value) integer(i int) (n int64, ok bool) {
	b := v.raw[uint64(i)*v.kind.size():]
	switch v.kind {
	case kindUint8:
		return int64(b[0]), true
	case kindInt8:
		return int64(int8(b[0])), true
	case kindUint16:
		return int64(binary.LittleEndian.Uint16(b)), true
	case kindInt16:
		return int64(int16(binary.LittleEndian.Uint16(b))), true
	case kindUint32:
		return int64(binary.LittleEndian.Uint32(b)), true
	case kindInt32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	}
	n = int64(binary.LittleEndian.Uint64(b))
	return n, v.kind == kindInt64 || n >= 0
}

// float returns element i. A float32 becomes the shortest decimal number that it stands for: 1e-5, not
// 9.999999747378752e-06, since that is what the model's configuration said.
func (v value) float(i int) float64 {
	if v.kind == kindFloat64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:]))
	}
	f := math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:]))
	decimal, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil {
		return float64(f)
	}
	return decimal
}

// what describes a value for messages.
func (v value) what() string {
	if v.array {
		return "an array of " + strconv.Itoa(v.count) + " " + v.kind.String()
	}
	return "of type " + v.kind.String()
}

// Keys returns the metadata's keys in the file's order. The slice is shared and must not be changed.
func (f *File) Keys() []string { return f.keys }

// Has reports whether the metadata have a key.
func (f *File) Has(key string) bool { _, ok := f.values[key]; return ok }

// Off reports whether a value switches its key off: zero, false, an empty text or an empty array. A missing key is off.
func (f *File) Off(key string) bool {
	v, ok := f.values[key]
	if !ok || v.array {
		return !ok || v.count == 0
	}
	if v.kind == kindText {
		return v.texts[0] == ""
	}
	for _, b := range v.raw {
		if b != 0 {
			return false
		}
	}
	return true
}

// Text returns a text; ok is false where the key is missing. Another type is an error.
func (f *File) Text(key string) (text string, ok bool, err error) {
	v, ok := f.values[key]
	if !ok {
		return "", false, nil
	}
	if v.array || v.kind != kindText {
		return "", true, f.Bad(key, "is %s, must be a text", v.what())
	}
	return v.texts[0], true, nil
}

// Int returns an integer; ok is false where the key is missing. Another type is an error, and so is a number past
// int64. An array gives its number where all elements are equal, which is how some files write what could differ by
// layer.
func (f *File) Int(key string) (n int64, ok bool, err error) {
	v, ok := f.values[key]
	if !ok {
		return 0, false, nil
	}
	if !v.kind.integer() || v.count == 0 {
		return 0, true, f.Bad(key, "is %s, must be an integer", v.what())
	}
	for i := range v.count {
		element, fits := v.integer(i)
		if !fits {
			return 0, true, f.Bad(key, "is past the largest 64-bit integer with a sign")
		}
		if i > 0 && element != n {
			return 0, true, f.Bad(key, "differs by layer (%d, %d, …), which is not supported", n, element)
		}
		n = element
	}
	return n, true, nil
}

// Float returns a number; ok is false where the key is missing. Another type is an error.
func (f *File) Float(key string) (x float64, ok bool, err error) {
	v, ok := f.values[key]
	if !ok {
		return 0, false, nil
	}
	if v.array || v.kind != kindFloat32 && v.kind != kindFloat64 {
		return 0, true, f.Bad(key, "is %s, must be a floating-point number", v.what())
	}
	return v.float(0), true, nil
}

// Bool returns a truth value; ok is false where the key is missing. Another type is an error.
func (f *File) Bool(key string) (b, ok bool, err error) {
	v, ok := f.values[key]
	if !ok {
		return false, false, nil
	}
	if v.array || v.kind != kindBool {
		return false, true, f.Bad(key, "is %s, must be a bool", v.what())
	}
	return v.raw[0] != 0, true, nil
}

// Texts returns an array of texts, which is shared and must not be changed; nil where the key is missing. Another type
// is an error.
func (f *File) Texts(key string) ([]string, error) {
	v, ok := f.values[key]
	if ok && (!v.array || v.kind != kindText) {
		return nil, f.Bad(key, "is %s, must be an array of texts", v.what())
	}
	return v.texts, nil
}

// Ints returns an array of integers; nil where the key is missing. Another type is an error.
func (f *File) Ints(key string) ([]int64, error) {
	v, ok := f.values[key]
	if !ok {
		return nil, nil
	}
	if !v.array || !v.kind.integer() {
		return nil, f.Bad(key, "is %s, must be an array of integers", v.what())
	}
	out := make([]int64, v.count)
	for i := range out {
		var fits bool
		if out[i], fits = v.integer(i); !fits {
			return nil, f.Bad(key, "element %d is past the largest 64-bit integer with a sign", i)
		}
	}
	return out, nil
}

// Floats returns an array of numbers; nil where the key is missing. Another type is an error.
func (f *File) Floats(key string) ([]float64, error) {
	v, ok := f.values[key]
	if !ok {
		return nil, nil
	}
	if !v.array || v.kind != kindFloat32 && v.kind != kindFloat64 {
		return nil, f.Bad(key, "is %s, must be an array of floating-point numbers", v.what())
	}
	out := make([]float64, v.count)
	for i := range out {
		out[i] = v.float(i)
	}
	return out, nil
}
