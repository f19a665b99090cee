package service

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn
	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return f }
func (f *from) Network() string      { return "tcp" }
func (f *from) String() string       { return f.address + ":1" }
func (f *from) Close() error         { f.closed = true; return nil }

// line is a listener at which connections wait.
type line struct {
	net.Listener
	waiting []*from
}

func (l *line) Accept() (net.Conn, error) {
	if len(l.waiting) == 0 {
		return nil, net.ErrClosed
	}
	next := l.waiting[0]
	l.waiting = l.waiting[1:]
	return next, nil
}

// TestFullOfConnections: who holds all connections with a few addresses keeps nobody out, whatever it opens again: a new
// one takes the place of the oldest one of the address that has the most. With an address for each connection, it does.
func TestFullOfConnections(t *testing.T) {
	l := &line{}
	b := &bounded{Listener: l, part: 4, most: 16, open: map[string][]*counted{}}
	open := func(address string) (net.Conn, *from) {
		f := &from{address: address}
		l.waiting = append(l.waiting, f)
		c, _ := b.Accept()
		return c, f
	}
	var flood []*from
	for i := range 20 { // the last four are a fifth one each
		_, f := open(fmt.Sprintf("10.0.0.%d", i%4))
		flood = append(flood, f)
	}
	for i, f := range flood {
		if f.closed != (i >= 16) {
			t.Errorf("connection %d of the flood is closed: %v", i, f.closed)
		}
	}
	peer, first := open("10.0.1.1")
	_, second := open("10.0.1.1")
	closed := 0
	for i, f := range flood[:16] {
		if f.closed {
			closed++
			if i >= 4 {
				t.Errorf("connection %d is closed, and is not the oldest of its address", i)
			}
		}
	}
	if peer == nil || first.closed || second.closed || closed != 2 {
		t.Fatalf("beside the flood, %d are closed for two others: %v, %v", closed, first, second)
	}
	for i := range 100 { // as often as they like
		open(fmt.Sprintf("10.0.0.%d", i%4))
	}
	if first.closed || second.closed || b.all != 16 {
		t.Errorf("the flood opens its connections again: %v, %v, %d are open", first, second, b.all)
	}
	for range 2 { // closed twice, it gives one place back
		peer.Close()
	}
	if c, _ := open("10.0.1.1"); c == nil || b.all != 16 {
		t.Errorf("a free place is not given: %d are open", b.all)
	}
	for i := range 100 {
		open(fmt.Sprintf("10.0.2.%d", i))
	}
	if c, _ := open("10.0.3.1"); c != nil || b.all != 16 {
		t.Errorf("with as many addresses as connections, there is a place: %d are open", b.all)
	}
	for _, held := range slices.Concat(slices.Collect(maps.Values(b.open))...) {
		held.Close()
	}
	if b.all != 0 || len(b.open) != 0 {
		t.Errorf("%d are open when all are closed", b.all)
	}
}
