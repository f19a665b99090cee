package trackers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// mlflowServer speaks with a server. The environment has the credentials, under MLflow's names.
type mlflowServer struct {
	url    *url.URL // may hold a user and a password
	token  string
	user   string
	secret string
	client http.Client
}

// name is the address without credentials.
func (s *mlflowServer) name() string {
	u := *s.url
	u.User = nil
	return u.String()
}

// refusal is an answer that says that the same request will never be accepted.
type refusal struct {
	Request string
	Status  int
	Code    string // MLflow's name for the error
	Message string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: the server answers %d %s %.200q", r.Request, r.Status, r.Code, r.Message)
}

// isUnknown says that the server knows nothing under the name or id.
func isUnknown(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.Code == "RESOURCE_DOES_NOT_EXIST"
}

type fields map[string]any

// largestAnswer bounds the memory of an answer; a run with 10 000 figures needs about 1 MB.
const largestAnswer = 16 << 20

// call makes a request of the API and reads the answer into out, unless it is nil. An error that is no refusal may
// pass.
func (s *mlflowServer) call(ctx context.Context, method, request string, body fields, out any) error {
	name, _, _ := strings.Cut(request, "?")
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		content = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.url.String(), "/")+"/api/2.0/mlflow/"+request,
		content)
	if err != nil {
		return fmt.Errorf("%s: %w", name, hideAddress(err))
	}
	r.Header.Set("Content-Type", "application/json")
	switch {
	case s.token != "":
		r.Header.Set("Authorization", "Bearer "+s.token)
	case s.user != "":
		r.SetBasicAuth(s.user, s.secret)
	}
	answer, err := s.client.Do(r)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s: %s has not answered before the end", name, s.name())
	case err != nil:
		return fmt.Errorf("%s: %s: %w", name, s.name(), hideAddress(err))
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", name, s.name(), err)
	}
	if code := answer.StatusCode; code < 200 || code > 299 {
		var problem struct {
			Code    string `json:"error_code"`
			Message string `json:"message"`
		}
		_ = json.Unmarshal(b, &problem) // a proxy's answer is no JSON
		if code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout {
			return &refusal{name, code, problem.Code, problem.Message}
		}
		return fmt.Errorf("%s: %s answers %d %s %.200q", name, s.name(), code, problem.Code, problem.Message)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s: the answer of %s: %w", name, s.name(), err)
	}
	return nil
}

// hideAddress takes the address out of an error of package net/http, since it may hold a password.
func hideAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
