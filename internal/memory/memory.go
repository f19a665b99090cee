// Package memory measures how much memory a part of the program needs: the resident size of the process, which counts
// what Go and libtorch hold, and nothing on a GPU.
package memory

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"popri/internal/parallel"
)

// interval is short against a stage that matters and long against the 10 µs that a reading takes.
const interval = 20 * time.Millisecond

// A Watch follows the resident size from [Begin] to [Watch.End].
type Watch struct {
	before int64 // the largest size of the process until Begin
	most   int64
	stop   func()
}

// Begin starts a watch.
func Begin() *Watch {
	w := &Watch{before: Peak(), most: Resident()}
	w.stop = parallel.Every(interval, func() { w.most = max(w.most, Resident()) })
	return w
}

// End is the largest resident size since Begin, in bytes: exact if the process was never larger before, otherwise the
// largest of the sizes read every 20 ms. It is 0 where /proc cannot be read. End must be called once.
//
// The kernel's own mark could be reset for each stage, but then the tools that read it after the end would be misled.
func (w *Watch) End() int64 {
	w.stop()
	if peak := Peak(); peak > w.before {
		return peak
	}
	return max(w.most, Resident())
}

// Resident is the resident size now, in bytes, or 0 where /proc cannot be read.
func Resident() int64 { return status("VmRSS:") }

// Peak is the largest resident size of the process so far, in bytes, or 0 where /proc cannot be read.
func Peak() int64 { return status("VmHWM:") }

func status(key string) int64 {
	b, _ := os.ReadFile("/proc/self/status") // elsewhere there is none
	return Field(b, key)
}

// Field is the field of a file of /proc with that key, which states it in kB, in bytes; 0 if the file lacks it.
func Field(file []byte, key string) int64 {
	_, rest, found := bytes.Cut(append([]byte("\n"), file...), []byte("\n"+key))
	if !found {
		return 0
	}
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
