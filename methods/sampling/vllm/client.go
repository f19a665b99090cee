package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"popri/internal/quote"
)

// KeyVariable is the environment variable with the server's API key; vLLM itself reads it too.
const KeyVariable = "VLLM_API_KEY"

const (
	maxAnswer   = 256 << 20        // bytes of an answer
	requestTime = 30 * time.Minute // of one request: a server may let it wait behind others
	firstPause  = 500 * time.Millisecond
	longPause   = 15 * time.Second
	// patience is how long a request is repeated after its first failure: a server of a large model takes minutes to start.
	patience = 10 * time.Minute
)

// client speaks to one server.
type client struct {
	url      string // without a slash at its end
	http     *http.Client
	key      string
	patience time.Duration
	pause    time.Duration // before the first repetition; it doubles
}

func newClient(url string) *client {
	return &client{url: strings.TrimSuffix(url, "/"), key: os.Getenv(KeyVariable), patience: patience, pause: firstPause,
		http: &http.Client{Timeout: requestTime,
			// Prompts go to the server that is named, and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// refused is the answer of a server that will not do what it was asked.
type refused struct {
	url, message string
	status       int
}

func (r *refused) Error() string {
	return fmt.Sprintf("vllm: %s answers %d: %s", r.url, r.status, r.message)
}

// unknownModel reports whether a server does not know the model of a request: it has forgotten an adapter.
func unknownModel(err error) bool {
	r, ok := errors.AsType[*refused](err)
	return ok && r.status == http.StatusNotFound
}

// passing reports whether a status may be another one soon.
func passing(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// do sends a request, again while the server cannot be reached or is busy, and reads its answer into out, if not nil.
func (c *client) do(ctx context.Context, method, path string, body, out any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("vllm: %w", err)
		}
	}
	var failing time.Time // since
	pause := c.pause
	for {
		answer, err := c.once(ctx, method, path, content)
		if err == nil {
			if out == nil {
				return nil
			}
			if err := json.Unmarshal(answer, out); err != nil {
				return fmt.Errorf("vllm: %s: the answer cannot be read: %w", c.url+path, quote.JSON(err))
			}
			return nil
		}
		r, isRefusal := errors.AsType[*refused](err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if isRefusal && !passing(r.status) {
			return err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) > c.patience {
			return fmt.Errorf("vllm: no answer for %v: %w", c.patience, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// once sends a request and returns the content of a good answer.
func (c *client) once(ctx context.Context, method, path string, content []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("vllm: %w", err)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("vllm: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("vllm: %s: %w", c.url+path, err)
	}
	if len(answer) > maxAnswer {
		return nil, &refused{c.url + path, fmt.Sprintf("more than %d MiB", maxAnswer>>20), resp.StatusCode}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &refused{c.url + path, message(answer), resp.StatusCode}
	}
	return answer, nil
}

// message is what an error's answer says, cut to a length.
func message(answer []byte) string {
	var said struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &said) == nil {
		if said.Error.Message != "" {
			return quote.Text(said.Error.Message)
		}
		if said.Message != "" {
			return quote.Text(said.Message)
		}
	}
	return quote.Text(string(answer))
}
