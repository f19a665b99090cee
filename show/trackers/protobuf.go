package trackers

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a Protocol Buffers message under construction. Its methods append one field each.
type message []byte

func (m *message) key(field int, wire protowire.Type) {
	*m = protowire.AppendTag(*m, protowire.Number(field), wire)
}

func (m *message) int(field int, v int64) {
	m.key(field, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(v))
}

func (m *message) fixed(field int, v uint64) {
	m.key(field, protowire.Fixed64Type)
	*m = protowire.AppendFixed64(*m, v)
}

func (m *message) double(field int, v float64) { m.fixed(field, math.Float64bits(v)) }

func (m *message) float(field int, v float32) {
	m.key(field, protowire.Fixed32Type)
	*m = protowire.AppendFixed32(*m, math.Float32bits(v))
}

func (m *message) text(field int, s string) { m.message(field, message(s)) }

func (m *message) message(field int, inner message) {
	m.key(field, protowire.BytesType)
	*m = protowire.AppendBytes(*m, inner)
}
