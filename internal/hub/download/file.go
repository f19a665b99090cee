package download

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/filelock"
	"popri/internal/hub"
)

// download fetches the content of a file into the cache. What came before an interruption is next to the file, under
// the name that the hub's programs give it, too.
func (g *getter) download(ctx context.Context, e entry) (err error) {
	what := g.o.Name + ": " + e.name
	locks := filepath.Join(g.o.Cache, ".locks", filepath.Base(hub.Folder(g.o.Cache, g.o.Name)))
	if err := os.MkdirAll(locks, 0o755); err != nil {
		return err
	}
	lock, err := filelock.Acquire(filepath.Join(locks, e.etag+".lock"))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	part := g.blob(e) + ".incomplete"
	for again := true; ; again = false {
		before, err := size(part)
		if err != nil {
			return err
		}
		if err := g.complete(ctx, what, e, part); err != nil {
			return err
		}
		sum, err := checksum(part, e)
		if err != nil {
			return err
		}
		if sum == e.etag {
			break
		}
		if err := os.Remove(part); err != nil {
			return err
		}
		if before == 0 || !again { // else the part that an earlier command left may have been damaged
			return fmt.Errorf("%s: its content has the checksum %s, the hub states %s: it came damaged, and was "+
				"removed; the same command fetches it again", what, sum, e.etag)
		}
	}
	if err := os.Rename(part, g.blob(e)); err != nil {
		return err
	}
	g.fetched += e.size
	g.told(0)
	return atomicfile.SyncDir(filepath.Dir(part))
}

func (g *getter) told(n int64) {
	if g.o.Progress != nil {
		g.o.Progress(g.fetched+n, g.expected)
	}
}

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// complete makes the part of a file as long as the file, and syncs it.
func (g *getter) complete(ctx context.Context, what string, e entry, part string) (err error) {
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	furthest := int64(0)
	err = g.repeat(ctx, what, func() (bool, error) {
		n, err := g.attempt(ctx, e, file)
		further := n > furthest
		furthest = max(furthest, n)
		return further, err
	})
	if err != nil {
		return err
	}
	return file.Sync()
}

// attempt sends one request for the bytes that a part lacks, and returns how long the part is then.
func (g *getter) attempt(ctx context.Context, e entry, file *os.File) (at int64, err error) {
	if at, err = file.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	restart := func() error {
		at = 0
		if err := file.Truncate(0); err != nil {
			return err
		}
		_, err := file.Seek(0, io.SeekStart)
		return err
	}
	if at > e.size {
		if err := restart(); err != nil {
			return 0, err
		}
	}
	if at == e.size {
		return at, nil
	}
	header := map[string]string{}
	if at > 0 {
		header["Range"] = fmt.Sprintf("bytes=%d-", at)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := g.send(inner, http.MethodGet, g.filePath(e.name), header)
	if errors.Is(err, errRange) && at > 0 {
		return at, errors.Join(restart(), &passing{err: err})
	}
	if err != nil {
		return at, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusPartialContent:
		if begins := fmt.Sprintf("bytes %d-", at); !strings.HasPrefix(response.Header.Get("Content-Range"), begins) {
			return at, errors.Join(restart(),
				&passing{err: fmt.Errorf("the bytes from %d on were asked for, and the hub sends %q", at,
					response.Header.Get("Content-Range"))})
		}
	case http.StatusOK: // all of it, also where only the rest was asked for
		if err := restart(); err != nil {
			return at, err
		}
	default:
		return at, fmt.Errorf("the hub answers %s", response.Status)
	}
	var stalled atomic.Bool
	timer := time.AfterFunc(g.o.stall, func() { stalled.Store(true); cancel() })
	defer timer.Stop()
	begun := at
	body := &counted{Reader: io.LimitReader(response.Body, e.size-at+1), each: func(n int64) {
		timer.Reset(g.o.stall)
		g.told(min(begun+n, e.size))
	}}
	n, err := io.Copy(file, body)
	at += n
	switch {
	case at > e.size:
		return 0, errors.Join(restart(), fmt.Errorf("the hub sends more than the %d bytes that it states", e.size))
	case body.err != nil && stalled.Load():
		return at, &passing{err: fmt.Errorf("nothing came for %s", g.o.stall)}
	case body.err != nil && ctx.Err() != nil:
		return at, ctx.Err()
	case body.err != nil:
		return at, &passing{err: body.err}
	case err != nil: // of the disk
		return at, err
	case at < e.size:
		return at, &passing{err: fmt.Errorf("%d of %d bytes came: %w", at, e.size, io.ErrUnexpectedEOF)}
	}
	return at, nil
}

// counted reports how many bytes were read, and keeps the error of reading apart from the error of writing.
type counted struct {
	io.Reader
	each func(all int64)
	all  int64
	err  error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.all += int64(n); n > 0 {
		c.each(c.all)
	}
	if err != io.EOF {
		c.err = err
	}
	return n, err
}

// checksum is the checksum of a file, of the kind that the hub states for it.
func checksum(path string, e entry) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var h hash.Hash
	if len(e.etag) == 2*sha256.Size {
		h = sha256.New()
	} else {
		h = sha1.New() // git's name of a file is the hash of its length and content
		fmt.Fprintf(h, "blob %d\x00", e.size)
	}
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
