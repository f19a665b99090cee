package service

import (
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"popri/fedsim/aggregate"
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

// places bound what requests hold at once: of what anybody holds, one address has a part at most, and beside it is what
// the trainer and the other aggregator hold. If all are taken, the address that holds most loses its oldest request to
// one that holds less.
type places struct {
	mutex   sync.Mutex
	held    map[string][]*hold // by address, the oldest first; "" has those with a certificate
	taken   map[string]int     // by address
	anybody int                // of those without a certificate
}

// hold is what a request holds until [hold.give].
type hold struct {
	of      *places
	address string // "" for a request with a certificate
	end     func() // ends the request
	n       int
	lost    bool
}

// certified is how many requests with a certificate are answered at once.
const certified = 16

// take takes n more places, if anybody then has at most most, and the address at most part of them.
func (h *hold) take(n, part, most int) bool {
	p := h.of
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if h.address == "" {
		part, most = certified, math.MaxInt
	}
	own := p.taken[h.address] + n
	if h.lost || own > part {
		return false
	}
	for p.anybody+n > most {
		other := p.oldest(own)
		if other == nil {
			return false
		}
		p.leave(other)
		other.lost = true
		other.end()
	}
	if p.held == nil {
		p.held, p.taken = map[string][]*hold{}, map[string]int{}
	}
	if h.n == 0 {
		p.held[h.address] = append(p.held[h.address], h)
	}
	p.add(h, n)
	return true
}

// give gives back what is held.
func (h *hold) give() {
	h.of.mutex.Lock()
	defer h.of.mutex.Unlock()
	h.of.leave(h)
}

func (p *places) leave(h *hold) {
	if h.n == 0 {
		return
	}
	p.held[h.address] = slices.DeleteFunc(p.held[h.address], func(other *hold) bool { return other == h })
	p.add(h, -h.n)
	if p.taken[h.address] == 0 {
		delete(p.taken, h.address)
		delete(p.held, h.address)
	}
}

func (p *places) add(h *hold, n int) {
	h.n += n
	p.taken[h.address] += n
	if h.address != "" {
		p.anybody += n
	}
}

// oldest is the oldest request of the address that holds most, if that is more than least; nil without one.
func (p *places) oldest(least int) (h *hold) {
	for address, n := range p.taken {
		if address != "" && n > least {
			h, least = p.held[address][0], n
		}
	}
	return h
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

// bounded accepts the most connections of an address, and of all. If all are taken, a new one gets the place of the
// oldest one of the address that has the most, unless its own has about as many.
type bounded struct {
	net.Listener
	part, most int
	mutex      sync.Mutex
	open       map[string][]*counted // by address, the oldest first
	all        int
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		entered, without := b.enter(c)
		if without != nil {
			without.Close()
		}
		if entered != nil {
			return entered, nil
		}
	}
}

// enter gives a connection a place, and returns the one that has none then: that itself, or one that loses its own.
func (b *bounded) enter(c net.Conn) (entered *counted, without net.Conn) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	address := addressOf(c.RemoteAddr().String())
	own := len(b.open[address])
	var oldest *counted
	if longest := own + 1; b.all >= b.most {
		for _, held := range b.open {
			if len(held) > longest {
				longest, oldest = len(held), held[0]
			}
		}
	}
	if own >= b.part || b.all >= b.most && oldest == nil {
		return nil, c
	}
	if oldest != nil {
		b.leave(oldest)
		without = oldest.Conn
	}
	entered = &counted{c, b, address}
	b.open[address] = append(b.open[address], entered)
	b.all++
	return entered, without
}

// leave takes a connection's place away, if it has one.
func (b *bounded) leave(c *counted) {
	held := b.open[c.address]
	left := slices.DeleteFunc(slices.Clone(held), func(other *counted) bool { return other == c })
	b.all -= len(held) - len(left)
	if b.open[c.address] = left; len(left) == 0 {
		delete(b.open, c.address)
	}
}

// counted is a connection that gives its place back.
type counted struct {
	net.Conn
	of      *bounded
	address string
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.of.mutex.Lock()
	c.of.leave(c)
	c.of.mutex.Unlock()
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
		return 0, aggregate.Refuse(overloaded, "too many reports arrive at once")
	}
	return n, err
}
