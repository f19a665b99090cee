package service

import (
	"crypto/subtle"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"popri/fedsim/aggregate"
)

// counts are what the metrics count since the process began.
type counts struct {
	mutex    sync.Mutex
	requests map[[2]string]int // by route and outcome
	bytes    int64
	seconds  float64
}

func (c *counts) add(route string, o aggregate.Outcome, bytes int64, took time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.requests[[2]string{route, string(o)}]++
	c.bytes += max(0, bytes)
	c.seconds += took.Seconds()
}

// metrics writes the figures in Prometheus' text format, for the operator alone: the times of changes show when single
// clients report.
func (s *Server) metrics(out http.ResponseWriter, in *http.Request) {
	shown := []byte(strings.TrimPrefix(in.Header.Get("Authorization"), "Bearer "))
	if s.MetricsToken == "" || subtle.ConstantTimeCompare(shown, []byte(s.MetricsToken)) != 1 {
		http.NotFound(out, in)
		return
	}
	var b strings.Builder
	metric := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind) }
	one := func(name, kind, help string, v float64) {
		metric(name, kind, help)
		fmt.Fprintf(&b, "%s %g\n", name, v)
	}
	c := s.counts
	c.mutex.Lock()
	metric("popri_aggregate_requests_total", "counter", "Requests by route and outcome.")
	for _, k := range slices.SortedFunc(maps.Keys(c.requests),
		func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(&b, "popri_aggregate_requests_total{route=%q,outcome=%q} %d\n", k[0], k[1], c.requests[k])
	}
	one("popri_aggregate_received_bytes_total", "counter", "Bytes of requests.", float64(c.bytes))
	one("popri_aggregate_request_seconds_total", "counter", "Seconds that requests took together.", c.seconds)
	c.mutex.Unlock()
	round, held, refused, batches := s.Aggregator.Counts()
	one("popri_aggregate_round", "gauge", "Round of the newest announcement.", float64(round))
	one("popri_aggregate_reports", "gauge", "Reports that are held for it.", float64(held))
	one("popri_aggregate_reports_unproved", "gauge",
		"Reports for it that were refused because their proofs do not hold.", float64(refused))
	one("popri_aggregate_batches_total", "counter", "Announcements so far.", float64(batches))
	one("popri_aggregate_requests_in_flight", "gauge", "Requests that are being answered.", float64(s.places.inUse()))
	one("popri_aggregate_bytes_arriving", "gauge", "Bytes of reports that arrive.", float64(s.bytes.inUse()))
	if !s.Certificate.IsZero() {
		one("popri_aggregate_certificate_ends_seconds", "gauge", "When the certificate ends, in seconds since 1970.",
			float64(s.Certificate.Unix()))
	}
	if spent, err := s.Aggregator.Ledger.Spent(); err == nil {
		one("popri_aggregate_epsilon_spent", "gauge", "ε that the shares so far have spent.", spent)
	}
	out.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = out.Write([]byte(b.String()))
}
