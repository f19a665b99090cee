package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
	"popri/fedsim/aggregate/service"
	"popri/testkit/testfederation"
	"popri/testkit/testfile"
)

// TestCallers: what is for the trainer or the other aggregator is for nobody else, however they call.
func TestCallers(t *testing.T) {
	f := testfederation.New(t, 3, nil)
	content := []byte("question")
	hash := sha256.Sum256(content)
	a := announcement(hash[:])
	leader := func(as string) *service.Remote {
		r := f.Remote(aggregate.Leader, as)
		t.Cleanup(r.Close)
		return r
	}
	ctx := t.Context()
	trainer := leader(identity.Trainer)
	if got := service.OutcomeOf(trainer.Announce(ctx, a)); got != service.Missing {
		t.Errorf("an announcement without its question: %q", got)
	}
	for _, as := range []string{"", string(aggregate.Helper), string(aggregate.Leader)} {
		if got := service.OutcomeOf(leader(as).PutFile(ctx, content)); got != "forbidden" {
			t.Errorf("%q gives a file: %q", as, got)
		}
		if got := service.OutcomeOf(leader(as).Announce(ctx, a)); got != "forbidden" {
			t.Errorf("%q announces: %q", as, got)
		}
		if _, err := leader(as).Share(ctx, a.ID()); service.OutcomeOf(err) != "forbidden" {
			t.Errorf("%q asks for the share: %v", as, err)
		}
	}
	if err := trainer.PutFile(ctx, content); err != nil {
		t.Fatal(err)
	}
	if err := trainer.Announce(ctx, a); err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"", identity.Trainer} {
		if _, err := leader(as).ReportIDs(ctx, a.ID()); service.OutcomeOf(err) != "forbidden" {
			t.Errorf("%q asks who reported: %v", as, err)
		}
	}
	if _, err := leader(string(aggregate.Helper)).ReportIDs(ctx, a.ID()); service.OutcomeOf(err) != aggregate.Waiting {
		t.Errorf("the helper asks who reported before the deadline: %v", err)
	}
	anybody := leader("")
	if got, err := anybody.Current(ctx); err != nil || got.ID() != a.ID() {
		t.Errorf("the announcement: %v, %v", got, err)
	}
	if got, err := anybody.File(ctx, hash[:]); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the question: %q, %v", got, err)
	}
	if _, err := anybody.File(ctx, make([]byte, 32)); service.OutcomeOf(err) != service.Missing {
		t.Errorf("another file: %v", err)
	}
}

// TestTLS: older protocols and certificates of others are refused.
func TestTLS(t *testing.T) {
	f, other := testfederation.New(t, 3, nil), testfederation.New(t, 3, nil)
	get := func(secrets *tls.Config) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: secrets}}
		defer c.CloseIdleConnections()
		answer, err := c.Get(f.Leader.URL + "/healthz")
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	good, err := f.ClientTLS("")
	if err != nil {
		t.Fatal(err)
	}
	if err := get(good); err != nil {
		t.Fatal(err)
	}
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if get(old) == nil {
		t.Error("TLS 1.2 is spoken")
	}
	stranger, err := other.ClientTLS("")
	if err != nil {
		t.Fatal(err)
	}
	if get(stranger) == nil {
		t.Error("a client trusts the aggregators of another federation")
	}
	foreign, err := other.ClientTLS(filepath.Join(other.Dir, identity.Trainer))
	if err != nil {
		t.Fatal(err)
	}
	foreign.RootCAs = good.RootCAs
	if get(foreign) == nil {
		t.Error("the trainer of another federation is let in")
	}
}

// TestCallersWhoDoNotRead: callers who ask for a large file and do not read it take no memory for it, and not the places
// of the trainer, the other aggregator and other addresses: if two of them hold all places, one of them loses one.
func TestCallersWhoDoNotRead(t *testing.T) {
	f := testfederation.New(t, 3, nil)
	dir := t.TempDir()
	server := service.New(service.Options{Aggregator: f.Aggregator(aggregate.Leader), Dir: dir, InFlight: 8,
		MaxFile: 1 << 30, Patience: time.Minute, Log: slog.New(slog.DiscardHandler)})
	const size = 64 << 20
	hash := strings.Repeat("ab", 32)
	testfile.Write(t, filepath.Join(dir, hash), "")
	if err := os.Truncate(filepath.Join(dir, hash), size); err != nil {
		t.Fatal(err)
	}
	h := server.Handler()
	ask := func(address string, out http.ResponseWriter, path string) {
		in := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		in.RemoteAddr = address + ":1"
		h.ServeHTTP(out, in)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun, end := make(chan bool), make(chan bool)
	var lost atomic.Int64
	var asked sync.WaitGroup
	for range 4 {
		asked.Go(func() { ask("10.0.0.1", &stuck{httptest.NewRecorder(), begun, end, &lost}, "/v1/files/"+hash) })
	}
	for range 4 {
		<-begun
	}
	runtime.ReadMemStats(&after)
	if more := after.TotalAlloc - before.TotalAlloc; more > size/8 {
		t.Errorf("four callers who do not read take %d bytes", more)
	}
	for address, want := range map[string]int{"10.0.0.1": 503, "10.0.0.2": 204} {
		out := httptest.NewRecorder()
		if ask(address, out, "/v1/announcements/current"); out.Code != want {
			t.Errorf("%s gets %d, want %d", address, out.Code, want)
		}
	}
	for range 4 {
		asked.Go(func() { ask("10.0.0.2", &stuck{httptest.NewRecorder(), begun, end, &lost}, "/v1/files/"+hash) })
	}
	for range 4 {
		<-begun
	}
	if lost.Load() != 0 {
		t.Errorf("%d requests were ended before all places were taken", lost.Load())
	}
	for range 2 {
		out := httptest.NewRecorder()
		if ask("10.0.0.3", out, "/v1/announcements/current"); out.Code != 204 {
			t.Errorf("beside two addresses that hold all places, another one gets %d", out.Code)
		}
	}
	if lost.Load() != 1 {
		t.Errorf("%d requests were ended for one more, want 1", lost.Load())
	}
	close(end)
	asked.Wait()
	out := httptest.NewRecorder()
	if ask("10.0.0.1", out, "/v1/announcements/current"); out.Code != 204 {
		t.Errorf("after they have ended, they get %d", out.Code)
	}
}

// SetWriteDeadline is called with a time that is past to end the request.
func (s *stuck) SetWriteDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		s.lost.Add(1)
	}
	return nil
}

// stuck is a caller who does not read before end is closed.
type stuck struct {
	*httptest.ResponseRecorder
	begun, end chan bool
	lost       *atomic.Int64 // callers who were ended
}

func (s *stuck) Write(b []byte) (int, error) {
	select {
	case s.begun <- true:
		<-s.end
	case <-s.end:
	}
	return len(b), nil
}

// TestLimits: requests beyond the slots, and beyond an address's rate, are told to come again, and the metrics and the
// log say so without anything of the requests.
func TestLimits(t *testing.T) {
	f := testfederation.New(t, 3, nil)
	var log bytes.Buffer
	server := service.New(service.Options{Aggregator: f.Aggregator(aggregate.Leader), Dir: t.TempDir(), InFlight: 1,
		Rate: 0.3, MaxFile: 1 << 20, MetricsToken: "a secret token",
		Patience: time.Minute, Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	h := server.Handler()
	ask := func(address, method, path string, body io.Reader) *httptest.ResponseRecorder {
		in := httptest.NewRequestWithContext(t.Context(), method, path, body)
		in.RemoteAddr = address + ":1"
		if address == "10.0.0.5" { // the operator's
			in.Header.Set("Authorization", "Bearer a secret token")
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, in)
		return out
	}
	// One address has three requests in ten seconds.
	for i := range 5 {
		out := ask("10.0.0.1", "GET", "/v1/announcements/current", nil)
		if want := map[bool]int{true: 204, false: 503}[i < 3]; out.Code != want || want == 503 &&
			out.Header().Get("Retry-After") == "" {
			t.Errorf("request %d: %d, want %d", i, out.Code, want)
		}
	}
	if out := ask("10.0.0.2", "GET", "/v1/announcements/current", nil); out.Code != 204 {
		t.Errorf("another address: %d", out.Code)
	}
	for i := range 5 { // a host has all addresses of an IPv6 network
		want := map[bool]int{true: 204, false: 503}[i < 3]
		if out := ask(fmt.Sprintf("[2001:db8::%d]", i), "GET", "/v1/announcements/current", nil); out.Code != want {
			t.Errorf("address %d of a network: %d, want %d", i, out.Code, want)
		}
	}
	// A report that arrives takes no slot.
	reading, in := io.Pipe()
	first := make(chan int)
	go func() { first <- ask("10.0.0.3", "POST", "/v1/reports", reading).Code }()
	if _, err := in.Write([]byte("secret")); err != nil { // it is being read
		t.Fatal(err)
	}
	if out := ask("10.0.0.4", "GET", "/v1/announcements/current", nil); out.Code != 204 {
		t.Errorf("while a report arrives: %d", out.Code)
	}
	in.Close()
	if code := <-first; code != 400 {
		t.Errorf("the slow request: %d", code)
	}
	if out := ask("10.0.0.6", "GET", "/metrics", nil); out.Code != 404 || strings.Contains(out.Body.String(), "popri_") {
		t.Errorf("anybody reads the metrics: %d, %s", out.Code, out.Body)
	}
	server.MetricsToken = ""
	if out := ask("10.0.0.6", "GET", "/metrics", nil); out.Code != 404 {
		t.Errorf("metrics without a token: %d", out.Code)
	}
	server.MetricsToken = "a secret token"
	page := ask("10.0.0.5", "GET", "/metrics", nil).Body.String()
	for _, want := range []string{`popri_aggregate_requests_total{route="/v1/announcements/current",outcome="overloaded"} 4`,
		`popri_aggregate_requests_total{route="/v1/reports",outcome="malformed"} 1`,
		"popri_aggregate_epsilon_spent 0\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the metrics lack %s:\n%s", want, page)
		}
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) popri_aggregate_\w+ .+|popri_aggregate_\w+(\{route="[^"]*",outcome="\w+"\})? [0-9.e+-]+)$`)
	for l := range strings.Lines(page) {
		if !line.MatchString(strings.TrimSpace(l)) {
			t.Errorf("the metrics have the line %q", l)
		}
	}
	if text := log.String(); strings.Contains(text, "secret") || strings.Contains(text, "10.0.0") ||
		!strings.Contains(text, `"outcome":"overloaded"`) {
		t.Errorf("the log:\n%s", text)
	}
}

// TestSlowSenders: reports that come slowly take no slot, their bytes are bounded, and one address's by half.
func TestSlowSenders(t *testing.T) {
	f := testfederation.New(t, 3, nil)
	server := service.New(service.Options{Aggregator: f.Aggregator(aggregate.Leader), Dir: t.TempDir(), InFlight: 4,
		MaxFile: 1 << 20, MetricsToken: "token", Patience: time.Minute, Log: slog.New(slog.DiscardHandler)})
	h := server.Handler()
	ask := func(address, method, path string, body io.Reader) *httptest.ResponseRecorder {
		in := httptest.NewRequestWithContext(t.Context(), method, path, body)
		in.RemoteAddr = address + ":1"
		in.Header.Set("Authorization", "Bearer token")
		out := httptest.NewRecorder()
		h.ServeHTTP(out, in)
		return out
	}
	arrive := func(bytes int) { // waits until this number is there
		line := fmt.Sprintf("popri_aggregate_bytes_arriving %d\n", bytes)
		for !strings.Contains(ask("10.0.0.9", "GET", "/metrics", nil).Body.String(), line) {
			runtime.Gosched()
		}
	}
	var sent sync.WaitGroup
	var ends []*io.PipeWriter
	send := func(address string, bytes int) { // without an end
		reading, in := io.Pipe()
		ends = append(ends, in)
		sent.Go(func() { ask(address, "POST", "/v1/reports", reading) })
		if _, err := in.Write(make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		send("10.0.0.1", 1)
	}
	arrive(200)
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		if out := ask(address, "GET", "/v1/announcements/current", nil); out.Code != 204 {
			t.Errorf("%s gets %d while 200 reports arrive", address, out.Code)
		}
	}
	const report = 1 << 12 // as large as it may be, while none is asked for
	send("10.0.0.1", report)
	arrive(200 + report)
	for address, want := range map[string]int{"10.0.0.1": 503, "10.0.0.2": 400} { // no report, but read
		if out := ask(address, "POST", "/v1/reports", strings.NewReader(strings.Repeat("x", report))); out.Code != want {
			t.Errorf("%s sends a report and gets %d, want %d", address, out.Code, want)
		}
	}
	send("10.0.0.1", report-200)
	send("10.0.0.2", report)
	send("10.0.0.2", report)
	arrive(4 * report)
	if out := ask("10.0.0.3", "POST", "/v1/reports", strings.NewReader(strings.Repeat("x", report/2))); out.Code != 400 {
		t.Errorf("beside two addresses whose reports fill the memory, another one sends its and gets %d", out.Code)
	}
	for _, in := range ends {
		in.Close()
	}
	sent.Wait()
	arrive(0)
}

// TestConnections: an address has four connections for each request that is answered at once, and 32 streams of each;
// and who fills all 64 places keeps nobody out.
func TestConnections(t *testing.T) {
	f := testfederation.New(t, 3, nil)
	secrets, err := f.ServerTLS(filepath.Join(f.Dir, string(aggregate.Leader)))
	if err != nil {
		t.Fatal(err)
	}
	trusting, err := f.ClientTLS("")
	if err != nil {
		t.Fatal(err)
	}
	trusting.NextProtos = []string{"h2"}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := service.New(service.Options{Aggregator: f.Aggregator(aggregate.Leader),
		Peer: f.Remote(aggregate.Helper, string(aggregate.Leader)), Dir: t.TempDir(), InFlight: 1, Patience: time.Minute,
		Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, l, secrets) }()
	dial := func(from string) (*tls.Conn, error) {
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		return tls.DialWithDialer(d, "tcp", l.Addr().String(), trusting)
	}
	var open []net.Conn
	for i := range 4 {
		c, err := dial("127.0.0.2")
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		open = append(open, c)
	}
	if c, err := dial("127.0.0.2"); err == nil {
		c.Close()
		t.Error("an address has a fifth connection")
	}
	c, err := dial("127.0.0.3")
	if err != nil {
		t.Fatalf("another address: %v", err)
	}
	open = append(open, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(c, c)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	first, err := frames.ReadFrame()
	if settings, ok := first.(*http2.SettingsFrame); !ok || err != nil {
		t.Errorf("the first frame: %v, %v", first, err)
	} else if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n > 32 {
		t.Errorf("%d streams of a connection", n)
	}
	open[0].Close() // its place is free when the server has seen it
	for {
		if c, err := dial("127.0.0.2"); err == nil {
			open = append(open, c)
			break
		}
		runtime.Gosched()
	}
	for i := range 64 {
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/4))}}
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	c, err = dial("127.0.0.4")
	if err != nil {
		t.Fatalf("when all places are taken: %v", err)
	}
	for _, c := range append(open, c) {
		c.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFailuresAreWarnings: a batch that cannot be settled is a warning once, and again when the reason changes.
func TestFailuresAreWarnings(t *testing.T) {
	f, log := testfederation.New(t, 3, nil), make(lines, 1<<10)
	f.Stop(aggregate.Leader)
	f.Log = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	f.Start(aggregate.Leader)
	if err := f.Aggregator(aggregate.Leader).Announce(announcement(make([]byte, sha256.Size)).Encode()); err != nil {
		t.Fatal(err)
	}
	good := testfile.Read(t, f.LedgerPath(aggregate.Leader))
	for more := range 2 {
		if err := os.Truncate(f.LedgerPath(aggregate.Leader), int64(len(good)+1+more)); err != nil {
			t.Fatal(err)
		}
		f.Advance()
		for tries := 0; !strings.Contains(<-log, `level=WARN msg="not settled"`); tries++ {
			if tries == 100 {
				t.Fatal("no warning")
			}
		}
		for range 2 {
			if line := <-log; !strings.Contains(line, `level=DEBUG msg="not settled"`) {
				t.Errorf("the same failure: %s", line)
			}
		}
	}
}

// lines are the lines of a log.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func announcement(question []byte) *aggregate.Announcement {
	return &aggregate.Announcement{Version: aggregate.Version, Nonce: "n", Round: 1, Question: question, Query: "mean",
		Values: 4, Bound: 1, Sigma: 2, Clients: 3, Least: 2, Deadline: uint64(time.Now().Add(time.Hour).Unix())}
}

// TestShutdown: a server that is told to end answers the request under way.
func TestShutdown(t *testing.T) {
	f := testfederation.New(t, 3, nil)
	reading, in := io.Pipe()
	secrets, err := f.ClientTLS("")
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: secrets, ForceAttemptHTTP2: true}}
	defer c.CloseIdleConnections()
	status := make(chan string)
	go func() {
		request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost,
			f.Leader.URL+"/v1/reports", reading)
		if err != nil {
			status <- err.Error()
			return
		}
		answer, err := c.Do(request)
		if err != nil {
			status <- err.Error()
			return
		}
		answer.Body.Close()
		status <- fmt.Sprint(answer.StatusCode)
	}()
	if _, err := in.Write([]byte("no report")); err != nil {
		t.Fatal(err)
	}
	f.Await(aggregate.Leader, "popri_aggregate_bytes_arriving 9")
	ended := make(chan struct{})
	go func() {
		f.Stop(aggregate.Leader)
		close(ended)
	}()
	in.Close()
	if got := <-status; got != "400" {
		t.Errorf("the request under way: %s", got)
	}
	<-ended
}
