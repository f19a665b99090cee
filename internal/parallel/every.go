package parallel

import (
	"sync"
	"time"
)

// Every calls f at intervals, in a goroutine of its own, until stop is called. stop returns when no call is under way.
func Every(interval time.Duration, f func()) (stop func()) {
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				f()
			}
		}
	})
	return func() {
		close(ended)
		group.Wait()
	}
}
