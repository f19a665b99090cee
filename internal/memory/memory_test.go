package memory

import (
	"runtime/debug"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	const size = 64 << 20
	before := Resident()
	if before < 1<<20 {
		t.Fatalf("the process has %d bytes", before)
	}
	first := Begin()
	held := make([]byte, size)
	for i := range held {
		held[i] = 1
	}
	peak := first.End()
	if peak < before+size || peak > before+4*size {
		t.Errorf("%d bytes at most, of which %d before and %d more", peak, before, size)
	}
	if held[size/2] != 1 {
		t.Fatal("the memory is not there")
	}
	held = nil
	debug.FreeOSMemory()
	after := Resident()
	second := Begin()
	time.Sleep(3 * interval)
	if got := second.End(); got > after+size/2 || got < after-size/2 {
		t.Errorf("a small stage after a large one: %d bytes at most, with %d at its beginning", got, after)
	}
	if Peak() < peak {
		t.Errorf("the largest size of the process fell from %d to %d", peak, Peak())
	}
}
