package method

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Traffic is the number of values that one client sends and receives in all rounds in which it is asked every time.
type Traffic struct{ Sent, Received int }

// Bytes of a value: a float64 of the sum, a float32 of an embedding.
const sentBytes, receivedBytes = 8, 4

// Bytes returns the bytes that the client sends and receives.
func (t Traffic) Bytes() (sent, received int64) {
	return sentBytes * int64(t.Sent), receivedBytes * int64(t.Received)
}

// String is "9.0 KiB and 512 B".
func (t Traffic) String() string {
	sent, received := t.Bytes()
	return fmt.Sprintf("%s and %s", humanize.IBytes(uint64(sent)), humanize.IBytes(uint64(received)))
}
