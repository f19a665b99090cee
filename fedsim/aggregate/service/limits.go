package service

import (
	"io"
	"math"
	"net"
	"net/netip"
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

// mostBuckets bounds the memory; beyond it all addresses begin again.
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

// places bound what requests hold at once, and connections: of what anybody holds, one address has a part at most, and
// beside it is what the trainer and the other aggregator hold. A place is held until the answer is written.
type places struct {
	mutex   sync.Mutex
	taken   map[string]int // by address; "" has those with a certificate
	anybody int            // of those without one
}

// certified is how many requests with a certificate are answered at once.
const certified = 16

// take takes n places for an address, "" for one with a certificate, if anybody then has at most most, and the address
// at most part of them. give gives them back.
func (p *places) take(address string, n, part, most int) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if address == "" {
		part, most = certified, math.MaxInt
	}
	ok := p.taken[address]+n <= part && p.anybody+n <= most
	if ok {
		p.add(address, n)
	}
	return ok
}

func (p *places) give(address string, n int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.add(address, -n)
}

func (p *places) add(address string, n int) {
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	if p.taken[address] += n; p.taken[address] == 0 {
		delete(p.taken, address)
	}
	if address != "" {
		p.anybody += n
	}
}

// inUse is how many places are taken.
func (p *places) inUse() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.anybody + p.taken[""]
}

// addressOf is whom limits take for one caller: a host, and of IPv6 the network of 64 bits, of which a host has all.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := at.Addr().Unmap()
	if address.Is6() {
		network, _ := address.Prefix(64) // has as many bits
		return network.String()
	}
	return address.String()
}

// bounded limits the connections of an address, and of all, and closes others.
type bounded struct {
	net.Listener
	places     places
	part, most int
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := addressOf(c.RemoteAddr().String())
		if b.places.take(address, 1, b.part, b.most) {
			return &counted{c, sync.OnceFunc(func() { b.places.give(address, 1) })}, nil
		}
		c.Close()
	}
}

// counted is a connection that gives its place back.
type counted struct {
	net.Conn
	give func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.give()
	return c.Conn.Close()
}

// arriving is a body whose bytes hold places while it comes.
type arriving struct {
	io.Reader
	take func(n int) bool
}

// Read implements io.Reader.
func (a arriving) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if n > 0 && !a.take(n) {
		return 0, &errOutcome{overloaded, "too many reports arrive at once"}
	}
	return n, err
}
