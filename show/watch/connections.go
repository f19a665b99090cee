package watch

import (
	"net"

	"golang.org/x/net/netutil"
)

// maxConnections leaves room for all viewers and for pages that are being opened.
const maxConnections = maxViewers + 32

// limited lets l have so many open connections at once, and no more than a quarter of the process's file handles, of
// which each takes one: the process that serves the page may be the one that makes the run, which needs handles more.
func limited(l net.Listener) net.Listener {
	return netutil.LimitListener(l, max(1, min(maxConnections, handles()/4)))
}
