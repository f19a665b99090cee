package parallel

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Every index is visited once, and ranges begin at multiples of the grain.
func TestRanges(t *testing.T) {
	for range 200 {
		n, grain := rand.IntN(3000), 1+rand.IntN(70)
		var mu sync.Mutex
		visits := make([]int, n)
		Ranges(n, grain, func(from, to int) {
			mu.Lock()
			defer mu.Unlock()
			if from%grain != 0 || to > n || to%grain != 0 && to != n {
				t.Errorf("the range %d to %d of %d in grains of %d", from, to, n, grain)
			}
			for i := from; i < to; i++ {
				visits[i]++
			}
		})
		for i, v := range visits {
			if v != 1 {
				t.Fatalf("%d of %d was visited %d times", i, n, v)
			}
		}
	}
}

// TestPanic: a caller can recover from a panic of its function on another goroutine.
func TestPanic(t *testing.T) {
	defer func() {
		if got := recover(); got != "broken" {
			t.Errorf("recovered %v", got)
		}
	}()
	Ranges(100, 1, func(_, to int) {
		if to > 50 {
			panic("broken")
		}
	})
}

// A call is repeated until it is stopped, and then no more.
func TestEvery(t *testing.T) {
	calls, enough := 0, make(chan struct{})
	stop := Every(time.Millisecond, func() {
		if calls++; calls == 3 {
			close(enough)
		}
	})
	<-enough
	stop()
	last := calls
	time.Sleep(10 * time.Millisecond)
	if calls != last {
		t.Errorf("%d calls, and %d when it was stopped", calls, last)
	}
}
