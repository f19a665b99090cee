package service

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"popri/fedsim/aggregate"
	"popri/fedsim/aggregate/identity"
)

// outcomeHeader has the outcome of an answer.
const outcomeHeader = "Popri-Outcome"

// The outcomes of requests that reach no aggregator.
const (
	overloaded = aggregate.Outcome("overloaded") // too many requests at once, or from one address
	forbidden  = aggregate.Outcome("forbidden")  // the caller's certificate does not permit the request
	tooLarge   = aggregate.Outcome("too_large")
	cutShort   = aggregate.Outcome("cut_short") // the request did not arrive in time, or its connection broke
	Missing    = aggregate.Outcome("missing")   // a file that the caller must send first
	failed     = aggregate.Outcome("failed")
)

var statuses = map[aggregate.Outcome]int{aggregate.Accepted: 201, aggregate.Repeated: 200, aggregate.Malformed: 400,
	aggregate.Unannounced: 404, aggregate.NotEnrolled: 403, aggregate.Forged: 403, aggregate.Replaced: 409,
	aggregate.Late: 410, aggregate.Busy: 409, aggregate.Budget: 403,
	aggregate.Few: 422, aggregate.Waiting: 425, overloaded: 503, forbidden: 403, tooLarge: 413, cutShort: 408,
	Missing: 404, failed: 500}

// answering makes the body of an answer; nil is an answer without one. A body that is a file is closed.
type answering func(in *http.Request, v visit) (io.Reader, error)

// visit is who asks. enter takes a place for the request, before work and memory; end ends the request.
type visit struct {
	address string // "" for one with a certificate
	enter   func() error
	end     func()
}

// inMemory answers with the bytes that f makes.
func inMemory(f func(in *http.Request, v visit) ([]byte, error)) answering {
	return func(in *http.Request, v visit) (io.Reader, error) {
		content, err := f(in, v)
		if content == nil || err != nil {
			return nil, err
		}
		return bytes.NewReader(content), nil
	}
}

// reason is an error without its outcome, which has a place of its own in answers.
func reason(err error) error {
	if r, ok := errors.AsType[*aggregate.Refusal](err); ok {
		return r.Unwrap()
	}
	return err
}

// answer bounds, answers, counts and logs a request. caller, if not "", is the name that the caller's certificate must
// have.
func (s *Server) answer(out http.ResponseWriter, in *http.Request, route, caller string, answer answering) {
	began := time.Now()
	address, err := s.admit(in, caller)
	var body io.Reader
	if err == nil {
		deadlines := http.NewResponseController(out) // a recorder in a test has none
		place := &hold{of: &s.places, address: address}
		place.end = func() {
			past := time.Unix(1, 0)
			_, _ = deadlines.SetReadDeadline(past), deadlines.SetWriteDeadline(past)
		}
		defer place.give()
		enter := func() error {
			if !place.take(1, max(1, s.InFlight/2), s.InFlight) {
				return aggregate.Refuse(overloaded, "too many requests at once")
			}
			return nil
		}
		_ = deadlines.SetReadDeadline(time.Now().Add(s.Patience))
		if route != reports { // which bounds its reports
			in.Body = http.MaxBytesReader(out, in.Body, max(s.MaxFile, 1<<16))
		}
		body, err = answer(in, visit{address, enter, place.end})
	}
	if file, ok := body.(io.Closer); ok {
		defer file.Close()
	}
	outcome := aggregate.OutcomeOf(err)
	level := slog.LevelDebug
	if outcome == "" {
		outcome, level = failed, slog.LevelError
	}
	status := statuses[outcome]
	if err == nil && in.Method == http.MethodGet {
		status = http.StatusOK
		if body == nil {
			status = http.StatusNoContent
		}
	}
	out.Header().Set(outcomeHeader, string(outcome))
	out.Header().Set("Content-Type", "application/octet-stream")
	if outcome == overloaded || outcome == aggregate.Waiting {
		out.Header().Set("Retry-After", "1")
	}
	if body == nil { // an error of the machine may name a path
		text := ""
		if err != nil && outcome != failed {
			text = reason(err).Error() + "\n"
		}
		body = strings.NewReader(text)
	}
	if s.Tap != nil {
		content, _ := io.ReadAll(body)
		s.Tap(in.URL.Path, content)
		body = bytes.NewReader(content)
	}
	out.WriteHeader(status)
	sent, _ := io.Copy(out, body)
	s.counts.add(route, outcome, in.ContentLength, time.Since(began))
	attributes := []any{"method", in.Method, "route", route, "outcome", string(outcome), "status", status, "bytes", sent,
		"seconds", time.Since(began).Seconds()}
	if outcome == failed {
		attributes = append(attributes, "error", err.Error())
	}
	s.Log.Log(in.Context(), level, "request", attributes...)
}

// admit is the address of a caller who may ask, "" for one with a certificate.
func (s *Server) admit(in *http.Request, caller string) (address string, err error) {
	if caller != "" {
		if identity.Caller(in.TLS) != caller {
			return "", aggregate.Refuse(forbidden, "this is for the %s alone", caller)
		}
		return "", nil
	}
	address = addressOf(in.RemoteAddr)
	if !s.limits.allow(address, time.Now()) {
		return "", aggregate.Refuse(overloaded, "too many requests from this address")
	}
	return address, nil
}

// read reads a body of at most limit bytes.
func read(in *http.Request, limit int64) ([]byte, error) {
	if in.ContentLength > limit {
		return nil, aggregate.Refuse(tooLarge, "%d bytes, want at most %d", in.ContentLength, limit)
	}
	content, err := io.ReadAll(io.LimitReader(in.Body, limit+1))
	if int64(len(content)) > limit {
		return nil, aggregate.Refuse(tooLarge, "more than %d bytes", limit)
	}
	if aggregate.OutcomeOf(err) == "" {
		return nil, aggregate.Refuse(cutShort, "the request was cut short")
	}
	return content, err
}
