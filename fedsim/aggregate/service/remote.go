package service

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"popri/fedsim/aggregate"
	"popri/internal/fault"
)

// Remote is an aggregator that is asked over HTTP. Its methods are safe for concurrent use.
type Remote struct {
	url  string
	http *http.Client
	// Waits, if not nil, is told why a request is tried again, when a reason is new. It may be called by several
	// goroutines. Set it before the first request.
	Waits func(error)
	told  sync.Map // the reasons that were told
}

// Ping is the time without an answer after which a connection is asked whether it lives: it may die unheard, as when a
// laptop sleeps.
const Ping = 15 * time.Second

// NewRemote connects to the aggregator of a role with secrets ([identity.Federation.ClientTLS]). Where the other one
// answers, which takes the same certificates, requests fail.
func NewRemote(url string, role aggregate.Role, secrets *tls.Config) *Remote {
	secrets = secrets.Clone()
	secrets.VerifyConnection = func(c tls.ConnectionState) error {
		if name := c.PeerCertificates[0].Subject.CommonName; name != string(role) {
			return &otherRole{url, string(role), name}
		}
		return nil
	}
	transport := &http.Transport{TLSClientConfig: secrets, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 20 * time.Second,
		IdleConnTimeout: time.Minute, HTTP2: &http.HTTP2Config{SendPingTimeout: Ping, PingTimeout: Ping}}
	return &Remote{url: strings.TrimRight(url, "/"), http: &http.Client{Timeout: 2 * time.Minute, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// otherRole is the error of an aggregator whose certificate names another role.
type otherRole struct{ url, want, got string }

func (e *otherRole) Error() string {
	return fmt.Sprintf("the %s is asked at %s, where the %s answers", e.want, e.url, e.got)
}

// Tell has tell hear what is waited for, in words.
func (r *Remote) Tell(role aggregate.Role, tell func(string)) {
	r.Waits = func(err error) { tell(fmt.Sprintf("waiting for the %s: %v", role, err)) }
}

// Close ends idle connections.
func (r *Remote) Close() { r.http.CloseIdleConnections() }

// Refused is the error of a request that was answered with a refusal.
type Refused struct {
	URL     string
	Status  int
	Outcome aggregate.Outcome
	Text    string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s answers %d %s: %s", r.URL, r.Status, r.Outcome, r.Text)
}

// OutcomeOf is the outcome of a request; "" if it got no answer.
func OutcomeOf(err error) aggregate.Outcome {
	var r *Refused
	switch {
	case err == nil:
		return aggregate.Accepted
	case errors.As(err, &r):
		return r.Outcome
	}
	return ""
}

// maxAnswer bounds what an aggregator can make its caller read.
const maxAnswer = 1 << 30

// request sends a request once. The caller closes the answer's body.
func (r *Remote) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	answer, err := r.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return answer, nil
}

// once asks once.
func (r *Remote) once(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	answer, err := r.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("service: %s%s: %w", r.url, path, err)
	}
	if answer.StatusCode/100 != 2 {
		text := strings.TrimSpace(string(content[:min(len(content), 300)]))
		return nil, &Refused{r.url, answer.StatusCode, aggregate.Outcome(answer.Header.Get(outcomeHeader)), text}
	}
	if answer.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	return content, nil
}

// again reports whether the same request can fare better later.
func again(err error) bool {
	r, ok := errors.AsType[*Refused](err)
	if !ok {
		return true // no answer: the aggregator is down, or the network
	}
	switch r.Outcome {
	case overloaded, cutShort, aggregate.Waiting, aggregate.Busy:
		return true
	}
	return r.Status/100 == 5
}

// mostCertificates is how often a certificate that is not accepted is tried: a clock may be set, or a server restarted
// with a new one.
const mostCertificates = 3

// distrusted explains an error of certificates, of which no waiting rids.
func distrusted(err error) (why string, ok bool) {
	var refused *net.OpError // crypto/tls exports no type of a peer's alert
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate is not of the federation's authority, or has expired", true
	case errors.As(err, &refused) && refused.Op == "remote error":
		return "it does not accept the certificate shown to it, which may have expired", true
	}
	return "", false
}

// do asks until there is an answer, with growing pauses, as long as ctx allows.
func (r *Remote) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	certificates := 0
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		content, err := r.once(ctx, method, path, body)
		if err == nil || !again(err) {
			return content, err
		}
		if other, ok := errors.AsType[*otherRole](err); ok {
			return nil, fault.User(other)
		}
		if why, ok := distrusted(err); ok {
			if certificates++; certificates == mostCertificates {
				return nil, fault.Userf("%s: %s (popri aggregate renew): %w", r.url, why, err)
			}
		}
		if _, known := r.told.LoadOrStore(err.Error(), true); !known && r.Waits != nil && ctx.Err() == nil {
			r.Waits(err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(delay/2 + rand.N(delay)):
		}
	}
}

// Health asks once whether the aggregator answers, and when its certificate ends.
func (r *Remote) Health(ctx context.Context) (ends time.Time, err error) {
	answer, err := r.request(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return ends, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return ends, fmt.Errorf("service: %s answers %s", r.url, answer.Status)
	}
	return answer.TLS.PeerCertificates[0].NotAfter, nil
}

// Announce opens a batch about files that the aggregator has.
func (r *Remote) Announce(ctx context.Context, a *aggregate.Announcement) error {
	_, err := r.do(ctx, http.MethodPost, "/v1/announcements", a.Encode())
	return err
}

// Current is the announcement that reports are taken for; nil if there is none.
func (r *Remote) Current(ctx context.Context) (*aggregate.Announcement, error) {
	content, err := r.do(ctx, http.MethodGet, "/v1/announcements/current", nil)
	if err != nil || content == nil {
		return nil, err
	}
	return aggregate.ParseAnnouncement(content)
}

// PutFile gives the aggregator a question or an encoder.
func (r *Remote) PutFile(ctx context.Context, content []byte) error {
	hash := sha256.Sum256(content)
	_, err := r.do(ctx, http.MethodPut, "/v1/files/"+hex.EncodeToString(hash[:]), content)
	return err
}

// File fetches a question or an encoder by its SHA-256, which is compared.
func (r *Remote) File(ctx context.Context, hash []byte) ([]byte, error) {
	content, err := r.do(ctx, http.MethodGet, "/v1/files/"+hex.EncodeToString(hash), nil)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], hash) {
		return nil, fmt.Errorf("service: %s gives a file with the hash %.6x for %.6x", r.url, sum, hash)
	}
	return content, nil
}

// Enrolled asks whether reports of a client's key are taken, again if there are too many requests. It is false only if
// the aggregator says so: one that does not answer may be back when the report is ready.
func (r *Remote) Enrolled(ctx context.Context, key ed25519.PublicKey) bool {
	for {
		_, err := r.once(ctx, http.MethodGet, "/v1/clients/"+hex.EncodeToString(key), nil)
		if OutcomeOf(err) != overloaded || ctx.Err() != nil {
			return OutcomeOf(err) != aggregate.NotEnrolled
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second/2 + rand.N(time.Second)):
		}
	}
}

// Report uploads a report. One that is held already is no error.
func (r *Remote) Report(ctx context.Context, content []byte) error {
	_, err := r.do(ctx, http.MethodPost, "/v1/reports", content)
	return err
}

// ReportIDs are the identifiers of the reports that the aggregator holds, once it takes no more.
func (r *Remote) ReportIDs(ctx context.Context, id aggregate.ID) ([]aggregate.ReportID, error) {
	content, err := r.once(ctx, http.MethodGet, "/v1/batches/"+id.String()+"/reports", nil)
	return aggregate.ParseIDs(content), err
}

// VerifyHalf is the aggregator's half of the key by which proofs are checked.
func (r *Remote) VerifyHalf(ctx context.Context, id aggregate.ID) ([]byte, error) {
	return r.once(ctx, http.MethodGet, "/v1/batches/"+id.String()+"/verify", nil)
}

// Proofs are the aggregator's records about proofs from an index on.
func (r *Remote) Proofs(ctx context.Context, id aggregate.ID, from uint64) (*aggregate.Proofs, error) {
	content, err := r.once(ctx, http.MethodGet, fmt.Sprintf("/v1/batches/%s/proofs/%d", id, from), nil)
	if err != nil {
		return nil, err
	}
	return aggregate.ParseProofs(content)
}

// Share waits for the noised share of a batch.
func (r *Remote) Share(ctx context.Context, id aggregate.ID) (*aggregate.Share, error) {
	content, err := r.do(ctx, http.MethodGet, "/v1/batches/"+id.String()+"/share", nil)
	if err != nil {
		return nil, err
	}
	return aggregate.ParseShare(content)
}
