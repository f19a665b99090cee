package service

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/internal/atomicfile"
)

// Options are what a server is made of.
type Options struct {
	Aggregator *aggregate.Aggregator
	Peer       *Remote       // the other aggregator
	Dir        string        // of questions and encoders
	InFlight   int           // requests of anybody that are answered at once; more are told to come again
	Rate       float64       // requests a second from one address, after a burst of ten seconds' worth; 0 for no limit
	MaxFile    int64         // bytes of a question or an encoder
	Patience   time.Duration // that a caller has to send its request
	Log        *slog.Logger
	// Certificate is when the server's own certificate ends; zero where there is none.
	Certificate time.Time
	// MetricsToken is what a reader of /metrics must show ("Authorization: Bearer …"); "" answers nobody.
	MetricsToken string
	// Tap, if not nil, is shown each answer before it leaves; tests look there for what must not leave.
	Tap func(path string, body []byte)
}

// Server is an aggregator's service.
type Server struct {
	Options
	role   aggregate.Role
	places places // of requests that are answered
	bytes  places // of reports that arrive
	limits *limits
	counts *counts
	wake   chan struct{} // a batch may be ready
}

// New makes a server. Its batches continue when [Server.Serve] is called.
func New(o Options) *Server {
	return &Server{Options: o, role: o.Aggregator.Role, limits: &limits{rate: o.Rate, buckets: map[string]*bucket{}},
		counts: &counts{requests: map[[2]string]int{}}, wake: make(chan struct{}, 1)}
}

// Serve answers on a listener until ctx ends, and then lets requests under way come to their end.
func (s *Server) Serve(ctx context.Context, l net.Listener, secrets *tls.Config) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	server := &http.Server{Handler: s.Handler(), TLSConfig: secrets, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 32}, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
	driving, stop := context.WithCancel(ctx)
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		s.drive(driving)
	}()
	ended := make(chan struct{})
	context.AfterFunc(driving, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if server.Shutdown(last) != nil { // somebody does not read
			server.Close()
		}
	})
	err := server.ServeTLS(&bounded{Listener: l, part: 4 * s.InFlight, most: 64 * s.InFlight,
		open: map[string][]*counted{}}, "", "")
	stop()
	<-ended
	<-driven
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("service: %w", err)
}

// reports is where clients send theirs.
const reports = "/v1/reports"

// Handler answers requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern, caller string, answer answering) {
		route := pattern[strings.LastIndexByte(pattern, ' ')+1:]
		mux.HandleFunc(pattern, func(out http.ResponseWriter,
			in *http.Request) {
			s.answer(out, in, route, caller, answer)
		})
	}
	handle("GET /v1/files/{hash}", "", s.file)
	handle("POST "+reports, "", inMemory(s.report))
	for _, r := range []struct {
		pattern, caller string
		answer          func(*http.Request) ([]byte, error)
	}{
		{"POST /v1/announcements", identity.Trainer, s.announce},
		{"GET /v1/announcements/current", "", s.current},
		{"PUT /v1/files/{hash}", identity.Trainer, s.takeFile},
		{"GET /v1/clients/{key}", "", s.enrolled},
		{"GET /v1/batches/{id}/reports", string(s.role.Peer()), ofBatch(s.reports)},
		{"GET /v1/batches/{id}/verify", string(s.role.Peer()), ofBatch(s.verifyHalf)},
		{"GET /v1/batches/{id}/proofs/{from}", string(s.role.Peer()), ofBatch(s.records)},
		{"GET /v1/batches/{id}/share", identity.Trainer, ofBatch(s.share)},
	} {
		handle(r.pattern, r.caller, inMemory(func(in *http.Request, v visit) ([]byte, error) {
			if err := v.enter(); err != nil {
				return nil, err
			}
			return r.answer(in)
		}))
	}
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "ok") })
	mux.HandleFunc("GET /metrics", s.metrics)
	return mux
}

func (s *Server) announce(in *http.Request) ([]byte, error) {
	content, err := read(in, 1<<12)
	if err != nil {
		return nil, err
	}
	a, err := aggregate.ParseAnnouncement(content)
	if err != nil {
		return nil, aggregate.Refuse(aggregate.Malformed, "%w", err)
	}
	for _, hash := range [][]byte{a.Question, a.Encoder} {
		if _, err := os.Stat(s.path(hash)); len(hash) > 0 && err != nil {
			return nil, aggregate.Refuse(Missing, "the file %.6x… of the announcement is not here", hash)
		}
	}
	if err := s.Aggregator.Announce(content); err != nil {
		return nil, err
	}
	s.Log.Info("announced", "round", a.Round, "query", a.Query, "values", a.Values, "deadline", a.Ends())
	s.nudge()
	if open := s.Aggregator.Current(); open == nil || open.ID() != a.ID() { // it was announced before, and another one is open
		return nil, nil
	}
	return nil, s.prune(a)
}

// prune removes the files of earlier announcements.
func (s *Server) prune(a *aggregate.Announcement) error {
	entries, err := os.ReadDir(s.Dir)
	for _, e := range entries {
		if name := e.Name(); err == nil && name != hex.EncodeToString(a.Question) && name != hex.EncodeToString(a.Encoder) {
			err = os.Remove(filepath.Join(s.Dir, name))
		}
	}
	return err
}

func (s *Server) current(*http.Request) ([]byte, error) {
	if a := s.Aggregator.Current(); a != nil {
		return a.Encode(), nil
	}
	return nil, nil
}

func (s *Server) path(hash []byte) string { return filepath.Join(s.Dir, hex.EncodeToString(hash)) }

func hashOf(in *http.Request, name string) ([]byte, error) {
	hash, err := hex.DecodeString(in.PathValue(name))
	if err != nil || len(hash) != sha256.Size {
		return nil, aggregate.Refuse(aggregate.Malformed, "%.80q is no SHA-256", in.PathValue(name))
	}
	return hash, nil
}

func (s *Server) takeFile(in *http.Request) ([]byte, error) {
	hash, err := hashOf(in, "hash")
	if err != nil {
		return nil, err
	}
	content, err := read(in, s.MaxFile)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); string(sum[:]) != string(hash) {
		return nil, aggregate.Refuse(aggregate.Malformed, "the content has another hash")
	}
	return nil, atomicfile.WriteBytes(s.path(hash), content)
}

// file answers from the disk: callers who do not read take no memory.
func (s *Server) file(in *http.Request, v visit) (io.Reader, error) {
	hash, err := hashOf(in, "hash")
	if err == nil {
		err = v.enter()
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(s.path(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, aggregate.Refuse(Missing, "there is no such file")
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// enrolled answers a client whether its report would be taken, before it is charged for one.
func (s *Server) enrolled(in *http.Request) ([]byte, error) {
	key, err := hex.DecodeString(in.PathValue("key"))
	if err == nil && s.Aggregator.IsEnrolled(key) {
		return nil, nil
	}
	return nil, aggregate.Refuse(aggregate.NotEnrolled, "the client is not enrolled")
}

func (s *Server) report(in *http.Request, v visit) ([]byte, error) {
	err := s.takeReport(in, v)
	switch o := aggregate.OutcomeOf(err); o {
	case aggregate.Accepted, aggregate.Repeated, cutShort, overloaded, "": // held, or to be sent again
	default:
		s.Aggregator.CountRefusal(o)
	}
	return nil, err
}

// takeReport takes a place when the report is there. Before, its bytes count: as many as InFlight reports have, of which
// one address has half.
func (s *Server) takeReport(in *http.Request, v visit) error {
	a := s.Aggregator.Current()
	limit := int64(1 << 12) // without one, a report is read to say that it is late or was not asked for
	if a != nil {
		limit = aggregate.MaxReport(a, s.role)
	}
	most := s.InFlight * int(limit)
	held := &hold{of: &s.bytes, address: v.address, end: v.end}
	defer held.give()
	in.Body = io.NopCloser(arriving{in.Body, func(n int) bool { return held.take(n, max(int(limit), most/2), most) }})
	content, err := read(in, limit)
	if err != nil && a == nil && aggregate.OutcomeOf(err) != overloaded {
		return aggregate.Refuse(aggregate.Late, "no reports are taken now")
	}
	if err == nil {
		err = v.enter()
	}
	if err == nil {
		err = s.Aggregator.Accept(content)
	}
	if err == nil {
		s.nudge()
	}
	return err
}

// ofBatch answers about the batch that the path names.
func ofBatch(answer func(aggregate.ID, *http.Request) ([]byte, error)) func(*http.Request) ([]byte, error) {
	return func(in *http.Request) ([]byte, error) {
		hash, err := hashOf(in, "id")
		if err != nil {
			return nil, err
		}
		return answer(aggregate.ID(hash), in)
	}
}

func (s *Server) reports(id aggregate.ID, _ *http.Request) ([]byte, error) {
	ids, err := s.Aggregator.IDs(id)
	return aggregate.AppendIDs([]byte{}, ids), err
}

func (s *Server) verifyHalf(id aggregate.ID, _ *http.Request) ([]byte, error) {
	return s.Aggregator.VerifyHalf(id)
}

func (s *Server) records(id aggregate.ID, in *http.Request) ([]byte, error) {
	from, err := strconv.ParseUint(in.PathValue("from"), 10, 32)
	if err != nil {
		return nil, aggregate.Refuse(aggregate.Malformed, "%.80q is no index of a record", in.PathValue("from"))
	}
	return s.Aggregator.Records(id, from)
}

func (s *Server) share(id aggregate.ID, _ *http.Request) ([]byte, error) {
	return s.Aggregator.Share(id)
}

// nudge has drive look at the batch.
func (s *Server) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// glance is how often an open batch is looked at.
const glance = 500 * time.Millisecond

// drive makes the share of each batch when its time has come and the other aggregator says what it holds. That one may
// be down for any time. Another failure may last until somebody acts on it, so each is a warning the first time.
func (s *Server) drive(ctx context.Context) {
	delay, told := time.Duration(0), ""
	for ctx.Err() == nil {
		id, wait, ok := s.Aggregator.Pending()
		if !ok {
			wait = glance
		} else if wait == 0 {
			err := s.settle(ctx, id)
			if outcome := aggregate.OutcomeOf(err); outcome == aggregate.Accepted || outcome == aggregate.Few {
				_, _, unproved, _ := s.Aggregator.Counts()
				s.Log.Info("settled", "batch", id.String()[:12], "outcome", string(outcome), "unproved", unproved)
				delay, told = 0, ""
				continue
			}
			delay = min(max(2*delay, 50*time.Millisecond), glance)
			level := slog.LevelDebug
			waiting := aggregate.OutcomeOf(err) == aggregate.Waiting || OutcomeOf(err) == aggregate.Waiting
			if !waiting && ctx.Err() == nil && err.Error() != told {
				level, told = slog.LevelWarn, err.Error()
			}
			s.Log.Log(ctx, level, "not settled", "batch", id.String()[:12], "error", err, "again", delay)
			wait = delay
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(min(wait, glance)): // the clock may be set
		}
	}
}

func (s *Server) settle(ctx context.Context, id aggregate.ID) error {
	if _, err := s.Aggregator.IDs(id); err != nil {
		return err
	}
	peer, err := s.Peer.ReportIDs(ctx, id)
	if OutcomeOf(err) == aggregate.Unannounced { // the other one will never hold any
		peer, err = nil, nil
	}
	if err != nil {
		return err
	}
	if s.Aggregator.Proves(id) {
		if err := s.prove(ctx, id, peer); err != nil {
			return err
		}
	}
	return s.Aggregator.Aggregate(ctx, id, peer)
}

// prove has both aggregators check the proofs of the reports that both hold.
func (s *Server) prove(ctx context.Context, id aggregate.ID, held []aggregate.ReportID) error {
	var half []byte
	if len(held) > 0 {
		var err error
		if half, err = s.Peer.VerifyHalf(ctx, id); err != nil {
			return err
		}
	}
	if err := s.Aggregator.Verify(ctx, id, held, half); err != nil {
		return err
	}
	return s.Aggregator.Decide(id, func(from uint64) (*aggregate.Proofs, error) { return s.Peer.Proofs(ctx, id, from) })
}
