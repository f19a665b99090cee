// Package parallel divides work over the processors, and repeats a call beside other work.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// turns is how many ranges each processor takes where there is enough work: ranges of unequal cost even out.
const turns = 8

// Ranges calls do for ranges that cover 0…n−1, on all processors. Each range is a multiple of grain but the last. Which
// processor takes which range differs from call to call, so do may depend on its range alone. A panic of do is the caller's.
func Ranges(n, grain int, do func(from, to int)) {
	workers := min(runtime.GOMAXPROCS(0), (n+grain-1)/grain)
	if workers <= 1 {
		do(0, n)
		return
	}
	share := max(1, n/(workers*turns*grain)) * grain
	var (
		next   atomic.Int64
		group  sync.WaitGroup
		failed atomic.Pointer[any]
	)
	for range workers {
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					failed.Store(&p)
				}
			}()
			for from := int(next.Add(int64(share))) - share; from < n; from = int(next.Add(int64(share))) - share {
				do(from, min(n, from+share))
			}
		})
	}
	group.Wait()
	if p := failed.Load(); p != nil {
		panic(*p)
	}
}

// Each calls do for 0 to n−1, on all processors.
func Each(n int, do func(i int)) {
	Ranges(n, 16, func(from, to int) {
		for i := from; i < to; i++ {
			do(i)
		}
	})
}
