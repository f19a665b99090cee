package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

// policy lets the page load its own style and script and speak to this server, and nothing else. Drawings have
// styles inside; pictures that are saved are made from data: and blob: addresses.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src " +
	"data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Serve serves a handler on a listener until ctx ends; then it calls last, and requests have a second to end.
func Serve(ctx context.Context, l net.Listener, h http.Handler, last func()) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(end) != nil { // somebody does not read
			server.Close()
		}
	})
	err := server.Serve(netutil.LimitListener(l, max(1, min(maxConnections, handles()/4))))
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("watch: %w", err)
}

// Static answers with the same text in UTF-8.
func Static(kind string, content []byte) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", kind+"; charset=utf-8")
		_, _ = out.Write(content)
	}
}

// Answer answers with a value as JSON, or with an error of the server.
func Answer(out http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(v) // the page may be gone
}

// Guard sends h the requests that the user meant for the server at addr, and lets its pages load nothing from elsewhere.
// A request whose Host header is neither an IP address nor localhost nor the host of addr is refused: it may come from a
// page of another site, whose name was made to point here.
func Guard(addr string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		h := out.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !trusted(in.Host, addr) {
			http.Error(out, "watch: this server is not called "+in.Host, http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(out, in)
	})
}

// trusted reports whether a Host header can belong to a request that the user meant for this server.
func trusted(host, addr string) bool {
	name := hostOf(host)
	if name == "localhost" || name != "" && name == hostOf(addr) {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// hostOf is the host of "host:port", "host" or "[v6]:port".
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return strings.ToLower(host)
	}
	return strings.ToLower(strings.Trim(address, "[]"))
}

// Loopback reports whether an address to listen on can be reached from this machine alone.
func Loopback(addr string) bool {
	host := hostOf(addr)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
