package download

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"popri/internal/fault"
	"popri/internal/hub"
	"popri/internal/quote"
	"popri/internal/version"
)

// Bounds of what a hub may send. They are far beyond any model, and keep a wrong address from filling memory or disk.
const (
	mostListing  = 64 << 20 // bytes of the list of files
	mostSettings = 64 << 20 // bytes of a file of settings, an index of weights included
	mostWeights  = 1 << 40  // bytes of a file of weights
)

// stallAfter is how long a hub may send nothing.
const stallAfter = time.Minute

// mostWait is the longest time that a hub may ask to wait for.
const mostWait = 6 * time.Minute

// waits are the times before a request is repeated.
var waits = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second}

// A passing error goes away by itself: the request may be repeated.
type passing struct {
	err   error
	after time.Duration // that the hub asks to wait
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// client asks the hub.
type client struct {
	o    Options
	base *url.URL
	http *http.Client
}

func newClient(o Options) (client, error) {
	base, err := url.Parse(o.Endpoint)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return client{}, fault.User(quote.Errorf("HF_ENDPOINT is %q, must be an address such as %s", o.Endpoint,
			hub.DefaultEndpoint))
	}
	if ip := net.ParseIP(base.Hostname()); o.Token != "" && base.Scheme == "http" && (ip == nil || !ip.IsLoopback()) &&
		base.Hostname() != "localhost" {
		return client{},
			fault.Userf("HF_ENDPOINT is %s, to which HF_TOKEN would travel unencrypted: use https, or unset HF_TOKEN",
				o.Endpoint)
	}
	if o.sleep == nil {
		o.sleep = sleep
	}
	if o.stall == 0 {
		o.stall = stallAfter
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = o.stall
	c := client{o: o, base: base}
	c.http = &http.Client{Transport: transport, CheckRedirect: c.redirect}
	return c, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (c *client) own(u *url.URL) bool { return u.Scheme == c.base.Scheme && u.Host == c.base.Host }

// redirect follows the hub to other hosts for contents, without the token, and to none for what the hub states itself.
func (c *client) redirect(next *http.Request, via []*http.Request) error {
	switch {
	case len(via) > 10:
		return errors.New("more than 10 redirections")
	case c.own(next.URL):
		return nil
	case via[0].Method == http.MethodHead:
		return http.ErrUseLastResponse
	case next.URL.Scheme != "https" && c.base.Scheme == "https":
		return fmt.Errorf("the hub sends to %s, which is not encrypted", next.URL.Redacted())
	}
	next.Header.Del("Authorization") // Go would keep it for another port and for hosts below this one
	return nil
}

// send sends a request to a path of the hub, whose parts are escaped. The caller closes the body.
func (c *client) send(ctx context.Context, method, path string, header map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.base.String(), "/")+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "popri/"+version.Program())
	request.Header.Set("Accept-Encoding", "identity") // the size and checksum are of the file as it is
	if c.o.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var at *url.Error // which repeats the whole address; an address of another host may hold a signature
		if errors.As(err, &at) {
			err = fmt.Errorf("%s: %w", host(at.URL), at.Err)
		}
		return nil, &passing{err: err}
	}
	if response.StatusCode < 400 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, c.refusal(response)
}

// host is the host of an address.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the hub"
	}
	return u.Host
}

// refusal is the error in a response.
func (c *client) refusal(r *http.Response) error {
	where := c.o.Endpoint + "/" + c.o.Name
	switch code := r.StatusCode; {
	case code == http.StatusRequestedRangeNotSatisfiable:
		return errRange
	case !c.own(r.Request.URL): // an address that the hub signs for a while; it gives another when it is asked again
		return &passing{fmt.Errorf("%s answers %s", r.Request.URL.Host, r.Status), retryAfter(r.Header)}
	case code == http.StatusUnauthorized && c.o.Token == "":
		return fault.Userf("the hub answers 401 (unauthorized): there is no model %s, or it is private or gated. For "+
			"a gated model, accept its terms at %s and set HF_TOKEN to a token of your account", c.o.Name, where)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fault.Userf("the hub answers %s: the account of HF_TOKEN may not read %s, or there is no such model. "+
			"For a gated model, accept its terms at %s; the token needs the right to read it", r.Status, c.o.Name,
			where)
	case code == http.StatusNotFound && r.Header.Get("X-Error-Code") == "RevisionNotFound":
		return fault.Userf("%s has no revision %s: %s/tree/main lists its branches and tags", c.o.Name, c.o.Revision,
			where)
	case code == http.StatusNotFound:
		return fault.Userf("the hub answers 404 (not found) to %s: is there a model %s with a revision %s?",
			r.Request.URL.Redacted(), c.o.Name, c.o.Revision)
	case code == http.StatusTooManyRequests || code >= 500:
		return &passing{fmt.Errorf("%s answers %s", r.Request.URL.Host, r.Status), retryAfter(r.Header)}
	}
	return fmt.Errorf("%s answers %s", r.Request.URL.Redacted(), r.Status)
}

// errRange says that a file has no bytes at the offset from where a download would continue.
var errRange = errors.New("the hub has no further bytes")

// retryAfter reads how long a server asks to wait: seconds or a time.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// repeat tries until there is no passing error. try reports whether it came further than any before it; the count of
// the attempts begins again then.
func (c *client) repeat(ctx context.Context, what string, try func() (further bool, err error)) error {
	for attempt := 0; ; attempt++ {
		further, err := try()
		var p *passing
		if !errors.As(err, &p) {
			if err != nil && !fault.IsUser(err) { // a user's mistake names the model itself
				err = fmt.Errorf("%s: %w", what, err)
			}
			return err
		}
		if further {
			attempt = 0
		}
		if attempt == len(waits) || p.after > mostWait {
			if p.after > 0 {
				err = fmt.Errorf("%w, and asks to wait for %s", err, p.after.Round(time.Second))
			}
			return fmt.Errorf("%s: %w. The same command continues from here; on a machine without network, "+
				"copy the folder %s from another", what, err, hub.Folder(c.o.Cache, c.o.Name))
		}
		wait := max(waits[attempt], p.after)
		if c.o.Say != nil {
			c.o.Say("%s: %v; again in %s", what, err, wait.Round(time.Second))
		}
		if err := c.o.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// list returns the commit of the revision and the names of its files.
func (c *client) list(ctx context.Context) (commit string, names []string, err error) {
	var answer struct {
		Commit string `json:"sha"`
		Files  []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	path := "/api/models/" + c.o.Name + "/revision/" + url.PathEscape(c.o.Revision)
	err = c.repeat(ctx, c.o.Name, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, 2*c.o.stall)
		defer cancel()
		r, err := c.send(limited, http.MethodGet, path, nil)
		var content []byte
		if err == nil {
			defer r.Body.Close()
			content, err = io.ReadAll(io.LimitReader(r.Body, mostListing))
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if limited.Err() != nil || err != nil && r != nil {
			err = &passing{err: err}
		}
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal(content, &answer); err != nil {
			return false, fmt.Errorf("%s is no hub of models: its list of the files is %s (%w)", c.o.Endpoint,
				quote.Raw(content), quote.JSON(err))
		}
		return false, nil
	})
	if err != nil {
		return "", nil, err
	}
	if !hub.IsCommit(answer.Commit) {
		return "", nil, quote.Errorf("the hub states the commit %q of %s", answer.Commit, quote.Raw(c.o.Name))
	}
	for _, f := range answer.Files {
		names = append(names, f.Name) // used only where it equals a name that popri reads
	}
	return answer.Commit, names, nil
}

// etagPattern is a SHA-256 (of large files) or git's SHA-1.
var etagPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// filePath is the path of a file of the commit on the hub.
func (g *getter) filePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/" + g.o.Name + "/resolve/" + g.commit + "/" + strings.Join(parts, "/")
}

// describe asks for the size and the checksum of a file.
func (g *getter) describe(ctx context.Context, name string, most int64) (entry, error) {
	e := entry{name: name}
	what := g.o.Name + ": " + name
	if !hub.Local(name) {
		return e, quote.Errorf("%s: the file %q is outside the model's folder", quote.Raw(g.o.Name), name)
	}
	if !g.had(name) {
		return e, fault.Userf("%s: %s is missing at %s, and another file names it", g.o.Name, name, g.o.Revision)
	}
	err := g.repeat(ctx, what, func() (bool, error) {
		r, err := g.send(ctx, http.MethodHead, g.filePath(name), nil)
		if err != nil {
			return false, err
		}
		r.Body.Close()
		e.etag, e.size = r.Header.Get("X-Linked-Etag"), -1
		if e.etag != "" {
			if n, err := strconv.ParseInt(r.Header.Get("X-Linked-Size"), 10, 64); err == nil {
				e.size = n
			}
		} else {
			e.etag = r.Header.Get("ETag")
		}
		if e.size < 0 && r.StatusCode == http.StatusOK {
			e.size = r.ContentLength
		}
		return false, nil
	})
	if err != nil {
		return e, err
	}
	e.etag = strings.Trim(strings.TrimPrefix(e.etag, "W/"), `"`)
	if !etagPattern.MatchString(e.etag) {
		return e, quote.Errorf("%s: the hub states the checksum %q, want a SHA-256 or a SHA-1 of git", what, e.etag)
	}
	if e.size < 0 || e.size > most {
		return e, fmt.Errorf("%s: the hub states a size of %d bytes, want 0 to %d", what, e.size, most)
	}
	return e, nil
}
