package trackers

import "google.golang.org/protobuf/encoding/protowire"

// fieldValue is a field's value as it stands in a message.
type fieldValue struct {
	number uint64 // of a varint or a number of fixed size
	bytes  []byte // of a text or a message
}

// messageFields iterates over the fields of a message. It ends where the message is broken.
func messageFields(b []byte) func(yield func(field int, v fieldValue) bool) {
	return func(yield func(int, fieldValue) bool) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				return
			}
			b = b[n:]
			var v fieldValue
			switch kind {
			case protowire.VarintType:
				v.number, n = protowire.ConsumeVarint(b)
			case protowire.Fixed64Type:
				v.number, n = protowire.ConsumeFixed64(b)
			case protowire.Fixed32Type:
				var short uint32
				short, n = protowire.ConsumeFixed32(b)
				v.number = uint64(short)
			case protowire.BytesType:
				v.bytes, n = protowire.ConsumeBytes(b)
			default:
				return
			}
			if n < 0 {
				return
			}
			b = b[n:]
			if !yield(int(number), v) {
				return
			}
		}
	}
}
