package trackers

import (
	"encoding/binary"
	"math"
)

// message is a Protocol Buffers message under construction. Its methods append one field each.
type message []byte

// The wire types.
const (
	varint  = 0
	fixed64 = 1
	counted = 2 // a length and as many bytes
	fixed32 = 5
)

func (m *message) key(field, wire int) { *m = binary.AppendUvarint(*m, uint64(field)<<3|uint64(wire)) }

func (m *message) int(field int, v int64) {
	m.key(field, varint)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) fixed(field int, v uint64) {
	m.key(field, fixed64)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

func (m *message) double(field int, v float64) {
	m.fixed(field, math.Float64bits(v))
}

func (m *message) float(field int, v float32) {
	m.key(field, fixed32)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

func (m *message) text(field int, s string) { m.message(field, message(s)) }

func (m *message) message(field int, inner message) {
	m.key(field, counted)
	*m = binary.AppendUvarint(*m, uint64(len(inner)))
	*m = append(*m, inner...)
}
