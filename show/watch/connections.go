package watch

import (
	"net"
	"sync"
)

// maxConnections leaves room for all viewers and for pages that are being opened.
const maxConnections = maxViewers + 32

// connections is a listener with a limited number of open connections: no more are accepted until one is closed. Each
// takes a file handle, and the process that serves the page may be the one that makes the run, which needs handles
// more.
type connections struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// limited limits l to a quarter of the process's file handles.
func limited(l net.Listener) *connections {
	return &connections{Listener: l, slots: make(chan struct{}, max(1, min(maxConnections, handles()/4))),
		closed: make(chan struct{})}
}

// Accept waits for a connection and for room for it.
func (c *connections) Accept() (net.Conn, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.closed:
		return nil, net.ErrClosed
	}
	conn, err := c.Listener.Accept()
	if err != nil {
		<-c.slots
		return nil, err
	}
	return &connection{Conn: conn, release: sync.OnceFunc(func() { <-c.slots })}, nil
}

// Close ends waiting for room too.
func (c *connections) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

// connection makes room when it is closed.
type connection struct {
	net.Conn
	release func()
}

func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}
