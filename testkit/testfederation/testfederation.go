// Package testfederation runs two aggregators on loopback addresses for tests: they can be killed and started again,
// and all that leaves them is recorded.
package testfederation

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"popri/accountant"
	"popri/accountant/ledger"
	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/fedsim/sealing"
)

// Federation is two aggregators and the keys of their clients.
type Federation struct {
	*identity.Federation
	Dir  string
	Seed *uint64      // of the aggregators' noise; nil is the system's entropy
	Log  slog.Handler // of aggregators that start

	t        testing.TB
	ahead    atomic.Int64 // seconds by which the aggregators' clocks run ahead
	mutex    sync.Mutex
	sides    map[aggregate.Role]*side
	reported map[aggregate.Role]func()
	left     map[aggregate.Role]map[string][]byte // what left the aggregators last, by path
}

// side is a running aggregator.
type side struct {
	*aggregate.Aggregator
	listener *listener
	handler  http.Handler
	stop     context.CancelFunc
	ended    chan struct{}
}

// New makes a federation and starts both aggregators.
func New(t testing.TB, clients int, seed *uint64) *Federation {
	t.Helper()
	f := &Federation{Dir: filepath.Join(t.TempDir(), "federation"), Seed: seed, Log: slog.DiscardHandler, t: t,
		sides:    map[aggregate.Role]*side{},
		left:     map[aggregate.Role]map[string][]byte{aggregate.Leader: {}, aggregate.Helper: {}},
		reported: map[aggregate.Role]func(){}}
	urls := map[aggregate.Role]string{}
	for _, role := range aggregate.Roles {
		l, err := net.Listen("tcp", "127.0.0.1:0") // a free port, kept by the address
		if err != nil {
			t.Fatal(err)
		}
		urls[role] = "https://" + l.Addr().String()
		l.Close()
	}
	if err := identity.Create(f.Dir, identity.Options{Clients: clients, Leader: urls[aggregate.Leader],
		Helper: urls[aggregate.Helper], Valid: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.Federation, err = identity.ReadFederation(filepath.Join(f.Dir, identity.FederationFile)); err != nil {
		t.Fatal(err)
	}
	for _, role := range aggregate.Roles {
		f.Start(role)
	}
	t.Cleanup(func() {
		for _, role := range aggregate.Roles {
			f.Kill(role)
		}
	})
	return f
}

// Start starts an aggregator on what an earlier one left.
func (f *Federation) Start(role aggregate.Role) {
	f.t.Helper()
	if err := f.start(role); err != nil {
		f.t.Fatal(err)
	}
}

func (f *Federation) start(role aggregate.Role) error {
	folder := filepath.Join(f.Dir, string(role))
	enrolled, revoked, err := identity.ReadEnrolled(filepath.Join(f.Dir, identity.EnrolledFile))
	if err != nil {
		return err
	}
	l, err := ledger.Obtain(f.LedgerPath(role),
		ledger.Budget{Epsilon: 1e6, Delta: 1e-5, Mechanism: "gaussian", Unit: "a client",
			Relation: accountant.ZeroOut, Clients: len(enrolled), InsecureSeededNoise: f.Seed != nil})
	if err != nil {
		return err
	}
	key, err := sealing.ReadPrivateKey(filepath.Join(folder, identity.SealFile))
	if err != nil {
		return err
	}
	a, err := aggregate.Open(aggregate.Config{Role: role, Key: key, Enrolled: enrolled, Revoked: revoked, Ledger: l,
		Dir: filepath.Join(folder, "batches"), InsecureSeed: f.Seed, Now: f.Now})
	if err != nil {
		return err
	}
	secrets, err := f.ServerTLS(folder)
	if err != nil {
		return err
	}
	server := service.New(service.Options{Aggregator: a, Peer: f.Remote(role.Peer(), string(role)),
		Dir: filepath.Join(folder, "files"), InFlight: 256,
		MaxFile: 1 << 28, Patience: 2 * time.Second, MetricsToken: metricsToken, Log: slog.New(f.Log),
		Tap: func(path string, body []byte) {
			f.mutex.Lock()
			f.left[role][path] = body
			reported := f.reported[role]
			f.mutex.Unlock()
			if path == "/v1/reports" && reported != nil {
				reported()
			}
		}})
	tcp, err := net.Listen("tcp", f.Party(role).URL[len("https://"):])
	if err != nil {
		return err
	}
	s := &side{Aggregator: a, listener: &listener{Listener: tcp}, handler: server.Handler(), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.ended)
		_ = server.Serve(ctx, s.listener, secrets) // a kill closes its listener
	}()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.sides[role] = s
	return nil
}

// Now is the time of the aggregators' clocks.
func (f *Federation) Now() time.Time {
	return time.Now().Add(time.Duration(f.ahead.Load()) * time.Second)
}

// Advance lets an hour pass.
func (f *Federation) Advance() { f.ahead.Add(3600) }

// Kill ends an aggregator without a farewell: its connections break, and what it has not written is lost.
func (f *Federation) Kill(role aggregate.Role) { f.end(role, (*listener).kill) }

// Stop ends an aggregator in order.
func (f *Federation) Stop(role aggregate.Role) { f.end(role, func(*listener) {}) }

func (f *Federation) end(role aggregate.Role, how func(*listener)) {
	f.mutex.Lock()
	s := f.sides[role]
	delete(f.sides, role)
	f.mutex.Unlock()
	if s == nil {
		return
	}
	how(s.listener)
	s.stop()
	<-s.ended
	s.Aggregator.Close()
	s.Aggregator.Ledger.Close()
}

// OnReport has a function called when an aggregator has taken a report and not yet answered.
func (f *Federation) OnReport(role aggregate.Role, do func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.reported[role] = do
}

// metricsToken is what the aggregators' operator shows to read their metrics.
const metricsToken = "a token of tests"

// Await waits for a line of an aggregator's metrics.
func (f *Federation) Await(role aggregate.Role, line string) {
	f.t.Helper()
	f.mutex.Lock()
	h := f.sides[role].handler
	f.mutex.Unlock()
	for f.t.Context().Err() == nil {
		out := httptest.NewRecorder()
		in := httptest.NewRequestWithContext(f.t.Context(), "GET", "/metrics", nil)
		in.Header.Set("Authorization", "Bearer "+metricsToken)
		h.ServeHTTP(out, in)
		if strings.Contains(out.Body.String(), line+"\n") {
			return
		}
		runtime.Gosched()
	}
	f.t.Fatalf("the metrics of the %s never said %q", role, line)
}

// Aggregator is a running aggregator; nil if it was killed.
func (f *Federation) Aggregator(role aggregate.Role) *aggregate.Aggregator {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if s := f.sides[role]; s != nil {
		return s.Aggregator
	}
	return nil
}

// TakeLeft returns the last bodies of an aggregator's answers since it was called before, by path, and forgets them.
func (f *Federation) TakeLeft(role aggregate.Role) map[string][]byte {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	out := f.left[role]
	f.left[role] = map[string][]byte{}
	return out
}

// Remote is an aggregator as others reach it: the trainer or the other aggregator by name, or a client for "".
func (f *Federation) Remote(role aggregate.Role, as string) *service.Remote {
	folder := ""
	if as != "" {
		folder = filepath.Join(f.Dir, as)
	}
	secrets, err := f.ClientTLS(folder)
	if err != nil {
		panic(fmt.Sprint("testfederation: ", err)) // it was read before
	}
	return service.NewRemote(f.Party(role).URL, role, secrets)
}

// LedgerPath is the file of an aggregator's ledger.
func (f *Federation) LedgerPath(role aggregate.Role) string {
	return filepath.Join(f.Dir, string(role), "ledger.jsonl")
}

// listener remembers its connections.
type listener struct {
	net.Listener
	mutex sync.Mutex
	open  []net.Conn
	dead  bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mutex.Lock()
		if l.open = append(l.open, c); l.dead {
			c.Close()
		}
		l.mutex.Unlock()
	}
	return c, err
}

func (l *listener) kill() {
	l.Close()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.dead = true
	for _, c := range l.open {
		c.Close()
	}
}
