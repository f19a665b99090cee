package tensor

// #include <stdlib.h>
// #include "torch.h"
// static char go_name[] = "Go", wait_name[] = "waiting", free_name[] = "free", draw_name[] = "popri::draw";
// static char *name_go(void) { return go_name; }
// static char *name_wait(void) { return wait_name; }
// static char *name_free(void) { return free_name; }
// static char *name_draw(void) { return draw_name; }
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Region is a part of the work that operations of many kinds do together.
type Region int

const (
	Elsewhere Region = iota
	Attention        // scores, softmax and mean of the values
	Head             // logits, log-probabilities and their gradients, draws
	Training         // sums of gradients, and the optimizer
)

// Operation is what calls of one operation took within a [Recording].
type Operation struct {
	Name    string // libtorch's ("aten::mm", "MmBackward0"), "popri::" and a kernel's, or one of the names below
	Region  Region
	Seconds float64 // of one thread, without the operations inside of it; times the threads that libtorch split it over
	Calls   int64
}

// What is recorded besides operations of libtorch and kernels: Go between them, and the release of tensors.
const (
	GoName   = "Go"
	FreeName = "free"
)

var (
	recording atomic.Bool
	recorder  sync.Mutex // held by the one recording that there may be
	recorded  C.int      // number of the last one
)

// Record calls f and returns where the threads' time went, by operation and region. Backward passes are split by the
// operations that they run, which count to the regions of their forward passes. No other goroutine may use this package
// before and after f while Record runs. Recordings wait for each other.
func Record(f func() error) ([]Operation, error) {
	recorder.Lock()
	defer recorder.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	recorded++
	C.popri_record(recorded)
	recording.Store(true)
	defer func() {
		recording.Store(false)
		C.popri_record(0)
	}()
	end := Elsewhere.enter()
	err := f()
	end()
	return operations(), err
}

// operations adds the threads' lines up.
func operations() []Operation {
	lines := make([]C.popri_line, C.popri_recorded(nil, 0))
	if len(lines) == 0 {
		return nil
	}
	lines = lines[:min(len(lines), int(C.popri_recorded(&lines[0], C.int(len(lines)))))]
	type key struct {
		name   string
		region Region
	}
	at := map[key]int{}
	var out []Operation
	for _, l := range lines {
		k := key{C.GoString(l.name), Region(l.region)}
		if k.name == "waiting" {
			continue
		}
		i, known := at[k]
		if !known {
			i, at[k] = len(out), len(out)
			out = append(out, Operation{Name: k.name, Region: k.region})
		}
		out[i].Seconds += float64(l.nanoseconds) / 1e9
		out[i].Calls += int64(l.calls)
	}
	return out
}

func nothing() {}

func ends() { C.popri_operation_ends() }

// Enter says that what follows in the scope that is under way, until end is called, belongs to r. Regions that record
// gradients do not overlap.
func (r Region) Enter() (end func()) {
	if !recording.Load() {
		return nothing
	}
	return r.enter()
}

func (r Region) enter() func() {
	from := C.popri_next_node()
	C.popri_region_begins(C.name_go(), C.int(r))
	return func() {
		C.popri_operation_ends()
		C.popri_made(from, C.int(r))
	}
}

// atGo records a thread's work outside of operations. The goroutine is locked to the thread.
func atGo() (end func()) {
	if !recording.Load() {
		return nothing
	}
	C.popri_operation_begins(C.name_go())
	return ends
}

// waits records that this goroutine waits for others, which work in its region.
func waits() (r C.int, end func()) {
	if !recording.Load() {
		return 0, nothing
	}
	runtime.LockOSThread()
	r = C.popri_region()
	C.popri_operation_begins(C.name_wait())
	return r, func() {
		C.popri_operation_ends()
		runtime.UnlockOSThread()
	}
}

// helps records the work of a goroutine for one that [waits] in region r.
func helps(r C.int) (end func()) {
	if !recording.Load() {
		return nothing
	}
	runtime.LockOSThread()
	C.popri_region_begins(C.name_go(), r)
	return func() {
		C.popri_operation_ends()
		runtime.UnlockOSThread()
	}
}

// releases records the release of tensors.
func releases() (end func()) {
	if !recording.Load() {
		return nothing
	}
	C.popri_operation_begins(C.name_free())
	return ends
}

// draws records a draw of tokens, in Go and in kernels.
func draws() (end func()) {
	if !recording.Load() {
		return nothing
	}
	C.popri_region_begins(C.name_draw(), C.int(Head))
	return ends
}
