package trackers

import (
	"context"
	"sync"
	"time"
)

// sending is the common part of the trackers that send from a goroutine of their own, so that the run never waits for a
// server.
type sending struct {
	limits limits
	wake   chan struct{} // of capacity 1: something has changed
	done   chan struct{} // closed when the goroutine has ended
	stop   context.CancelFunc

	mu      sync.Mutex // guards all below, and what the tracker's type says
	untold  error      // the first failure that Log has not returned
	lost    int        // what did not fit into the queue
	refused bool       // for good: nothing is kept any longer
}

// limits are the times and sizes of the sending.
type limits struct {
	request    time.Duration // of one request
	pause      time.Duration // after the first failure; doubled after each further one
	longest    time.Duration // of the pauses
	drain      time.Duration // how long Close waits for a server that answers
	lastChance time.Duration // and for one that did not answer before
	queue      int           // what waits, besides the history
	batch      int           // of a request
}

// begin starts the goroutine.
func (s *sending) begin(l limits, work func(context.Context)) {
	s.limits, s.wake, s.done = l, make(chan struct{}, 1), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.done)
		work(ctx)
	}()
}

// tell returns a failure once. The lock is held.
func (s *sending) tell() error {
	err := s.untold
	s.untold = nil
	return err
}

func (s *sending) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// join waits for the goroutine, but not for longer than patience.
func (s *sending) join(patience time.Duration) {
	s.poke()
	late := time.AfterFunc(patience, s.stop)
	<-s.done
	late.Stop()
	s.stop()
}
