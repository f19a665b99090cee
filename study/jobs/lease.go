package jobs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/filelock"
)

// errTaken ends the work of a task whose lease another one has taken over, since it showed no life for too long.
var errTaken = errors.New("another task has taken this work over")

// Clock says how a lease shows that its holder lives.
type Clock struct {
	Beat time.Duration // between two signs of life
	// Stale is how long a watcher waits for a sign before it takes the lease over, by its own clock: the clocks of two
	// machines may differ. It is many beats, for a network folder shows a file's change late.
	Stale time.Duration
}

// Standard is the clock of tasks on a network folder.
var Standard = Clock{Beat: 10 * time.Second, Stale: 2 * time.Minute}

// Lease is the right to do a piece of work. It is kept by two means, since none serves everywhere. The operating
// system's lock on FILE.lock ends with its process, and holds between machines where the folder's server keeps it. FILE
// itself names the holder, and a number in it that grows shows that the holder lives, also where locks are each
// machine's own.
type Lease struct {
	path  string
	owner owner
	lock  *filelock.Lock // nil where the folder has no locks
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// owner is the content of a lease's file.
type owner struct {
	Host string `json:"host"`
	// Boot names the running system: a host's name may return on another machine.
	Boot  string `json:"boot,omitempty"`
	PID   int    `json:"pid"`
	Nonce string `json:"nonce"`
	Beat  int    `json:"beat"`
}

// Hold takes the lease at path. If another task that is alive holds it, Hold waits, and calls waiting, which may be
// nil, once with the name of that task. The returned context ends when ctx ends, or with the cause [errTaken] when the
// lease is lost.
func Hold(ctx context.Context, path string, c Clock, waiting func(holder string)) (context.Context, *Lease, error) {
	l := &Lease{path: path, owner: newOwner()}
	var seen string
	var since time.Time
	for {
		taken, holder, err := l.try(seen, !since.IsZero() && time.Since(since) >= c.Stale)
		if err != nil {
			return nil, nil, errors.Join(err, l.lock.Release())
		}
		if taken {
			break
		}
		if holder != seen || since.IsZero() {
			seen, since = holder, time.Now()
		}
		if waiting != nil {
			waiting(holder)
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(ctx.Err(), l.lock.Release())
		case <-time.After(c.Beat):
		}
	}
	held, lose := context.WithCancelCause(ctx)
	beating, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.ended.Go(func() { l.beat(beating, c, lose) })
	return held, l, nil
}

// try takes the lease if nobody holds it, if its holder was a process of this machine that has ended, or if its file
// still says seen and that is stale. Otherwise it returns what the file says.
func (l *Lease) try(seen string, stale bool) (taken bool, holder string, err error) {
	if l.lock == nil {
		l.lock, err = filelock.Acquire(l.path + ".lock")
		switch {
		case errors.Is(err, filelock.ErrLocked):
			b, _ := os.ReadFile(l.path)
			return false, strings.TrimSpace(string(b)), nil
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK), errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return false, "", err
		}
	}
	b, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		taken, err = create(l.path, l.content())
		return taken, "", err
	}
	if err != nil {
		return false, "", err
	}
	holder = strings.TrimSpace(string(b))
	var other owner
	unreadable := json.Unmarshal(b, &other) != nil // a torn write of a folder that broke
	dead := l.lock != nil && other.Boot != "" && other.Boot == l.owner.Boot
	if !dead && !(stale && holder == seen) {
		return false, holder, nil
	}
	// Two watchers may come to this point together. Each moves away what it judged, and anyone who moved something else
	// puts it back; beat ends the work of anyone who loses nevertheless.
	old := fmt.Sprintf("%s.%s", l.path, l.owner.Nonce)
	if err := os.Rename(l.path, old); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, "", nil
		}
		return false, "", err
	}
	defer os.Remove(old)
	if moved, err := os.ReadFile(old); err == nil && string(moved) != string(b) && !unreadable {
		_, err := create(l.path, moved)
		return false, strings.TrimSpace(string(moved)), err
	}
	taken, err = create(l.path, l.content())
	return taken, "", err
}

// create makes a file, unless another task was faster.
func create(path string, content []byte) (made bool, err error) {
	err = atomicfile.CreateBytes(path, content, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// beat shows that the holder lives, and ends the work if it no longer holds the lease or cannot show life.
func (l *Lease) beat(ctx context.Context, c Clock, lose context.CancelCauseFunc) {
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Beat):
		}
		mine, err := l.mine()
		if err == nil && !mine {
			lose(fmt.Errorf("%s: %w", l.path, errTaken))
			return
		}
		if err == nil {
			l.owner.Beat++
			err = atomicfile.WriteBytes(l.path, l.content())
		}
		if err == nil {
			last = time.Now()
		} else if time.Since(last) > c.Stale/2 {
			lose(fmt.Errorf("%s cannot be written, so another task may take it over: %w", l.path, err))
			return
		}
	}
}

// mine reports whether the file names this lease.
func (l *Lease) mine() (bool, error) {
	b, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var now owner
	if err == nil {
		err = json.Unmarshal(b, &now)
	}
	return now.Nonce == l.owner.Nonce, err
}

// Release gives the lease back.
func (l *Lease) Release() error {
	l.stop()
	l.ended.Wait()
	mine, err := l.mine()
	if err == nil && mine {
		err = os.Remove(l.path)
	}
	return errors.Join(err, l.lock.Release())
}

func (l *Lease) content() []byte {
	b, err := json.Marshal(l.owner)
	if err != nil {
		panic(err) // plain fields
	}
	return append(b, '\n')
}

func newOwner() owner {
	o := owner{PID: os.Getpid(), Nonce: rand.Text()}
	o.Host, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		o.Boot = strings.TrimSpace(string(b))
	}
	return o
}
