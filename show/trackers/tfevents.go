package trackers

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of TensorFlow's messages Event (event.proto), Summary.Value (summary.proto) and TensorProto (tensor.proto).
const (
	eventTime    = 1 // double, seconds since 1970
	eventStep    = 2
	eventVersion = 3
	eventSummary = 5
	eventSession = 7

	summaryValue  = 1
	valueTag      = 1
	valueSimple   = 2 // float
	valueTensor   = 8
	valueMetadata = 9

	metadataPlugin = 1
	pluginName     = 1
	metadataClass  = 4
	classTensor    = 2

	tensorType    = 1
	tensorShape   = 2
	tensorStrings = 8
	typeString    = 7

	sessionStart = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is the checksum of a TFRecord. It is masked because a checksum of data that hold checksums says little.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// appendRecord appends a TFRecord: length, its checksum, data, their checksum.
func appendRecord(out []byte, data message) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(append(out, length...), maskedCRC(length))
	return binary.LittleEndian.AppendUint32(append(out, data...), maskedCRC(data))
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// pointRecords has an event for each run of points at one step and time. TensorBoard keeps values as float32.
func pointRecords(points []Point) (out []byte) {
	for len(points) > 0 {
		first, n := points[0], 0
		var event, summary message
		for n < len(points) && points[n].Step == first.Step && points[n].Time.Equal(first.Time) {
			var value message
			value.text(valueTag, points[n].Key)
			value.float(valueSimple, float32(points[n].Value))
			summary.message(summaryValue, value)
			n++
		}
		event.double(eventTime, seconds(first.Time))
		event.int(eventStep, first.Step)
		event.message(eventSummary, summary)
		out, points = appendRecord(out, event), points[n:]
	}
	return out
}

// textEvent is a text for TensorBoard's text page, which reads Markdown.
func textEvent(tag, text string, at time.Time) message {
	var plugin, metadata, tensor, value, summary, event message
	plugin.text(pluginName, "text")
	metadata.message(metadataPlugin, plugin)
	metadata.int(metadataClass, classTensor)
	tensor.int(tensorType, typeString)
	tensor.message(tensorShape, nil) // a scalar
	tensor.text(tensorStrings, text)
	value.text(valueTag, tag)
	value.message(valueTensor, tensor)
	value.message(valueMetadata, metadata)
	summary.message(summaryValue, value)
	event.double(eventTime, seconds(at))
	event.message(eventSummary, summary)
	return event
}

// message is a Protocol Buffers message under construction. Its methods append one field each.
type message []byte

func (m *message) key(field int, wire protowire.Type) {
	*m = protowire.AppendTag(*m, protowire.Number(field), wire)
}

func (m *message) int(field int, v int64) {
	m.key(field, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(v))
}

func (m *message) double(field int, v float64) {
	m.key(field, protowire.Fixed64Type)
	*m = protowire.AppendFixed64(*m, math.Float64bits(v))
}

func (m *message) float(field int, v float32) {
	m.key(field, protowire.Fixed32Type)
	*m = protowire.AppendFixed32(*m, math.Float32bits(v))
}

func (m *message) text(field int, s string) { m.message(field, message(s)) }

func (m *message) message(field int, inner message) {
	m.key(field, protowire.BytesType)
	*m = protowire.AppendBytes(*m, inner)
}
