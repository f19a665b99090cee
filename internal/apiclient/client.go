// Package apiclient speaks to a server with an API as OpenAI's: JSON over HTTP, a key in a header, and repetition while
// the server cannot be reached or is busy.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"popri/internal/quote"
)

const (
	maxAnswer   = 256 << 20        // bytes of an answer
	requestTime = 30 * time.Minute // of one request: a server may let it wait behind others
	firstPause  = 500 * time.Millisecond
	longPause   = 15 * time.Second
	patience    = 10 * time.Minute // a server of a large model takes minutes to start
)

// Client speaks to one server.
type Client struct {
	URL      string        // without a slash at its end
	Patience time.Duration // how long a request is repeated after its first failure
	Pause    time.Duration // before the first repetition; it doubles

	name string // of the kind of server, which errors begin with
	http *http.Client
	key  string
}

// New makes a client of the server at url. Errors begin with name; the key, "" for none, goes into the header
// Authorization.
func New(url, name, key string) *Client {
	return &Client{URL: strings.TrimSuffix(url, "/"), Patience: patience, Pause: firstPause, name: name, key: key,
		http: &http.Client{Timeout: requestTime,
			// Prompts go to the server that is named, and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Refused is the answer of a server that will not do what it was asked.
type Refused struct {
	Status             int
	name, url, message string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s: %s answers %d: %s", r.name, r.url, r.Status, r.message)
}

// passing reports whether a status may be another one soon.
func passing(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// Do sends a request, again while the server cannot be reached or is busy, and reads its answer into out, if not nil.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	var failing time.Time // since
	pause := c.Pause
	for {
		answer, err := c.Once(ctx, method, path, content)
		if err == nil {
			if out == nil {
				return nil
			}
			if err := json.Unmarshal(answer, out); err != nil {
				return fmt.Errorf("%s: %s: the answer cannot be read: %w", c.name, c.URL+path, quote.JSON(err))
			}
			return nil
		}
		r, isRefusal := errors.AsType[*Refused](err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if isRefusal && !passing(r.Status) {
			return err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) > c.Patience {
			return fmt.Errorf("%s: no answer for %v: %w", c.name, c.Patience, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// Once sends a request and returns the content of a good answer.
func (c *Client) Once(ctx context.Context, method, path string, content []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", c.name, c.URL+path, err)
	}
	if len(answer) > maxAnswer {
		return nil, &Refused{resp.StatusCode, c.name, c.URL + path, fmt.Sprintf("more than %d MiB", maxAnswer>>20)}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &Refused{resp.StatusCode, c.name, c.URL + path, message(answer)}
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
	if json.Unmarshal(answer, &said) != nil {
		return quote.Text(string(answer))
	}
	return quote.Text(cmp.Or(said.Error.Message, said.Message, string(answer)))
}
