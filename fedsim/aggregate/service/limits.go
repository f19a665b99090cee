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

// places bound the requests that are answered at once: those of anybody, of whom one address takes half at most, and
// beside them those of the trainer and of the other aggregator. A place is held until the answer is written.
type places struct {
	most  int // of anybody
	mutex sync.Mutex
	taken map[string]int // by address; "" has those with a certificate
}

// certified is how many requests with a certificate are answered at once.
const certified = 16

// take takes a place for a request from an address, "" for one with a certificate. free gives it back.
func (p *places) take(address string) (free func(), ok bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	limit := max(1, p.most/2)
	if address == "" {
		limit = certified
	}
	if p.taken[address] >= limit || address != "" && p.anybody() >= p.most {
		return nil, false
	}
	p.taken[address]++
	return func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if p.taken[address]--; p.taken[address] == 0 {
			delete(p.taken, address)
		}
	}, true
}

// anybody is how many places are taken without a certificate.
func (p *places) anybody() (n int) {
	for address, k := range p.taken {
		if address != "" {
			n += k
		}
	}
	return n
}

// inUse is how many places are taken.
func (p *places) inUse() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.anybody() + p.taken[""]
}
