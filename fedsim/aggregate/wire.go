package aggregate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"popri/internal/numeric"
)

// message is a Protocol Buffers message of aggregate.proto: the field of number i+1 is what fields()[i] points to. A
// field that is zero is not written.
type message interface{ fields() []any }

// ErrMalformed marks bytes that are not the expected message in its one form: fields in the order of their numbers,
// none of them unknown or zero. A message of another version is malformed, too.
var ErrMalformed = errors.New("the message is malformed")

func encode(m message) []byte {
	var b []byte
	for i, f := range m.fields() {
		number := protowire.Number(i + 1)
		switch v := f.(type) {
		case *uint64:
			if *v != 0 {
				b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), *v)
			}
		case *bool:
			if *v {
				b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), 1)
			}
		case *float64:
			if *v != 0 {
				b = protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), math.Float64bits(*v))
			}
		case *string:
			if *v != "" {
				b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), *v)
			}
		case *[]byte:
			if len(*v) > 0 {
				b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), *v)
			}
		case *[]uint64: // repeated fixed64, packed
			if len(*v) > 0 {
				b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(8*len(*v)))
				b = appendWords(b, *v)
			}
		}
	}
	return b
}

// decode reads a message. The result shares no memory with b.
func decode(b []byte, m message) error {
	fields := m.fields()
	for rest := b; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || int(number) > len(fields) {
			return fmt.Errorf("%w: byte %d begins no known field", ErrMalformed, len(b)-len(rest))
		}
		rest = rest[n:]
		n = -1
		switch v := fields[number-1].(type) {
		case *uint64:
			if kind == protowire.VarintType {
				*v, n = protowire.ConsumeVarint(rest)
			}
		case *bool:
			if kind == protowire.VarintType {
				var word uint64
				word, n = protowire.ConsumeVarint(rest)
				*v = word != 0
			}
		case *float64:
			if kind == protowire.Fixed64Type {
				var word uint64
				word, n = protowire.ConsumeFixed64(rest)
				*v = math.Float64frombits(word)
			}
		case *string, *[]byte, *[]uint64:
			if kind != protowire.BytesType {
				break
			}
			var content []byte
			content, n = protowire.ConsumeBytes(rest)
			switch v := v.(type) {
			case *string:
				*v = string(content)
			case *[]byte:
				*v = bytes.Clone(content)
			case *[]uint64:
				*v = words(content)
			}
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d is cut short or of another type", ErrMalformed, number)
		}
		rest = rest[n:]
	}
	if !bytes.Equal(encode(m), b) {
		return fmt.Errorf("%w: it is not in its one form", ErrMalformed)
	}
	return nil
}

// appendWords appends words to b, little-endian.
func appendWords(b []byte, words []uint64) []byte {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// words is the inverse of appendWords; bytes that fill no word are left out.
func words(b []byte) []uint64 {
	return numeric.Tabulate(len(b)/8, func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) })
}
