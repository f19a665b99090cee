package gguf

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"popri/internal/numeric"
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

// kinds has the names of kinds, and the bytes of a value, 0 for texts and arrays.
var kinds = [...]struct {
	name string
	size uint64
}{{"uint8", 1}, {"int8", 1}, {"uint16", 2}, {"int16", 2}, {"uint32", 4}, {"int32", 4}, {"float32", 4}, {"bool", 1},
	{"text", 0}, {"array", 0}, {"uint64", 8}, {"int64", 8}, {"float64", 8}}

func (k kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return "type " + strconv.FormatUint(uint64(k), 10)
}

func (k kind) size() uint64 {
	if int(k) < len(kinds) {
		return kinds[k].size
	}
	return 0
}

func (k kind) integer() bool { return k.size() > 0 && k != kindBool && !k.float() }

func (k kind) float() bool { return k == kindFloat32 || k == kindFloat64 }

// value is one metadata value, or an array of them. Numbers stay the bytes of the file, so that an array takes no more
// memory than it does there.
type value struct {
	kind  kind // of one element
	array bool
	count int
	raw   []byte   // of numbers and booleans
	texts []string // of texts
}

func (c *cursor) value(key string, k kind) value {
	v := value{kind: k, count: 1}
	if k == kindArray {
		v.kind, v.array = kind(c.uint32()), true
		n, least := c.uint64(), max(v.kind.size(), 1)
		switch v.kind {
		case kindArray:
			c.fail(c.file.Bad(key, "is an array of arrays, which is not supported"))
		case kindText:
			least = 8 // of its length
		}
		v.count = int(c.fits(v.kind.String()+" in "+quote.Raw(key), n, least))
	}
	switch size := v.kind.size(); {
	case v.kind == kindText:
		for len(v.texts) < v.count && c.err == nil {
			v.texts = append(v.texts, c.text())
		}
	case size > 0:
		v.raw = c.take(uint64(v.count) * size)
	default:
		c.fail(c.file.Bad(key, "has a value of unknown type (%s)", v.kind.String()))
	}
	return v
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
	return !slices.ContainsFunc(v.raw, func(b byte) bool { return b != 0 })
}

// read returns the value of a key by get; ok is false where the key is missing. A value that fits does not describe is
// an error, which says what it must be.
func read[T any](f *File, key, must string, fits func(v value) bool, get func(v value) (T, error)) (x T, ok bool,
	err error) {
	v, ok := f.values[key]
	if !ok {
		return x, false, nil
	}
	if !fits(v) {
		return x, true, f.Bad(key, "is %s, must be %s", v.what(), must)
	}
	x, err = get(v)
	return x, true, err
}

// Text returns a text; ok is false where the key is missing. Another type is an error.
func (f *File) Text(key string) (text string, ok bool, err error) {
	return read(f, key, "a text", func(v value) bool { return !v.array && v.kind == kindText },
		func(v value) (string, error) { return v.texts[0], nil })
}

// Int returns an integer; ok is false where the key is missing. Another type is an error, and so is a number past
// int64. An array gives its number where all elements are equal, which is how some files write what could differ by
// layer.
func (f *File) Int(key string) (n int64, ok bool, err error) {
	return read(f, key, "an integer", func(v value) bool { return v.kind.integer() && v.count > 0 },
		func(v value) (n int64, err error) {
			for i := range v.count {
				element, fits := v.integer(i)
				if !fits {
					return 0, f.Bad(key, "is past the largest 64-bit integer with a sign")
				}
				if i > 0 && element != n {
					return 0, f.Bad(key, "differs by layer (%d, %d, …), which is not supported", n, element)
				}
				n = element
			}
			return n, nil
		})
}

// Float returns a number; ok is false where the key is missing. Another type is an error.
func (f *File) Float(key string) (x float64, ok bool, err error) {
	return read(f, key, "a floating-point number", func(v value) bool { return !v.array && v.kind.float() },
		func(v value) (float64, error) { return v.float(0), nil })
}

// Bool returns a truth value; ok is false where the key is missing. Another type is an error.
func (f *File) Bool(key string) (b, ok bool, err error) {
	return read(f, key, "a bool", func(v value) bool { return !v.array && v.kind == kindBool },
		func(v value) (bool, error) { return v.raw[0] != 0, nil })
}

// Texts returns an array of texts, which is shared and must not be changed; nil where the key is missing. Another type
// is an error.
func (f *File) Texts(key string) ([]string, error) {
	list, _, err := read(f, key, "an array of texts", func(v value) bool { return v.array && v.kind == kindText },
		func(v value) ([]string, error) { return v.texts, nil })
	return list, err
}

// Ints returns an array of integers; nil where the key is missing. Another type is an error.
func (f *File) Ints(key string) ([]int64, error) {
	list, _, err := read(f, key, "an array of integers", func(v value) bool { return v.array && v.kind.integer() },
		func(v value) ([]int64, error) {
			out := make([]int64, v.count)
			for i := range out {
				var fits bool
				if out[i], fits = v.integer(i); !fits {
					return nil, f.Bad(key, "element %d is past the largest 64-bit integer with a sign", i)
				}
			}
			return out, nil
		})
	return list, err
}

// Floats returns an array of numbers; nil where the key is missing. Another type is an error.
func (f *File) Floats(key string) ([]float64, error) {
	list, _, err := read(f, key, "an array of floating-point numbers",
		func(v value) bool { return v.array && v.kind.float() },
		func(v value) ([]float64, error) { return numeric.Tabulate(v.count, v.float), nil })
	return list, err
}
