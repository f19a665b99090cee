package service

import (
	"sync"
	"time"
)

// limits bound the requests of each address: a bucket of ten seconds' requests, which fills at the rate.
type limits struct {
	rate    float64
	mutex   sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// mostBuckets bounds the memory; beyond it all addresses begin anew.
const mostBuckets = 1 << 16

func newLimits(rate float64) *limits { return &limits{rate: rate, buckets: map[string]*bucket{}} }

func (l *limits) allow(address string, now time.Time) bool {
	if l.rate <= 0 {
		return true
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	b := l.buckets[address]
	if b == nil {
		if len(l.buckets) >= mostBuckets {
			clear(l.buckets)
		}
		b = &bucket{10 * l.rate, now}
		l.buckets[address] = b
	}
	b.left = min(10*l.rate, b.left+l.rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
