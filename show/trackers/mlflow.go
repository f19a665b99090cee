package trackers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// mlflow sends points to a server from a goroutine of its own, so that the run never waits for it. Points wait in a
// queue until the server has confirmed them. While the server is away, attempts follow each other at growing pauses;
// what it lacks at the end, the next process that continues with the run sends.
type mlflow struct {
	session *mlflowSession
	limits  limits
	wake    chan struct{}  // of capacity 1: something has changed
	closing chan struct{}  // closed when Close has set the end
	ended   sync.WaitGroup // of the goroutine
	stop    context.CancelFunc

	mu      sync.Mutex // guards all below
	queue   []Point
	has     map[string]int64 // newest step of each key that the server had at the last beginning
	end     *End             // set by Close
	failing bool             // the last attempt failed
	untold  error            // the first failure that Log has not returned
	lost    int              // points that did not fit into the queue
	refused bool             // for good: nothing is kept any longer
}

// limits are the times and sizes of the sending.
type limits struct {
	request    time.Duration // of one request
	pause      time.Duration // after the first failure; doubled after each further one
	longest    time.Duration // of the pauses
	drain      time.Duration // how long Close waits for a server that answers
	lastChance time.Duration // and for one that did not answer before
	queue      int           // what waits, besides the history
	batch      int           // of a request
}

// The server takes at most 1000 figures in a request.
var mlflowLimits = limits{request: 10 * time.Second, pause: time.Second, longest: time.Minute, drain: 10 * time.Second,
	lastChance: 2 * time.Second, queue: 1 << 17, batch: 1000}

func openMLflow(run Run) (Tracker, error) {
	l := mlflowLimits
	if timeout, err := mlflowTimeout(run.Getenv); err != nil {
		return nil, err
	} else if timeout > 0 {
		l.request, l.drain = timeout, timeout
	}
	return newMLflow(run, l)
}

// mlflowTimeout is MLflow's own limit of a request, 0 if the environment sets none.
func mlflowTimeout(getenv func(string) string) (time.Duration, error) {
	const name, day = "MLFLOW_HTTP_REQUEST_TIMEOUT", 24 * 60 * 60
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > day {
		return 0, fmt.Errorf("%s is %q, must be a whole number of seconds from 1 to %d", name, text, day)
	}
	return time.Duration(n) * time.Second, nil
}

func newMLflow(run Run, l limits) (*mlflow, error) {
	session, err := newMLflowSession(run, l.request)
	if err != nil {
		return nil, err
	}
	l.queue += len(run.History)
	ctx, stop := context.WithCancel(context.Background())
	m := &mlflow{session: session, limits: l, wake: make(chan struct{}, 1), closing: make(chan struct{}),
		stop: stop, queue: slices.Clip(run.History)}
	m.ended.Go(func() { m.work(ctx) })
	return m, nil
}

// Log implements Tracker.
func (m *mlflow) Log(points []Point) error {
	m.mu.Lock()
	points = m.lacking(points) // a process that was killed had sent points that its files do not have
	fit := min(len(points), max(0, m.limits.queue-len(m.queue)))
	if m.refused || m.lost > 0 { // the next process sends what follows the server's newest figures, so there may be no gap
		fit = 0
	}
	m.queue = append(m.queue, points[:fit]...)
	m.lost += len(points) - fit
	err := m.tell()
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default: // it has been woken already
	}
	return err
}

// Close implements Tracker. It waits for the queue, but not for long.
func (m *mlflow) Close(end End) error {
	m.mu.Lock()
	m.end = &end
	patience := m.limits.drain
	if m.failing {
		patience = m.limits.lastChance
	}
	m.mu.Unlock()
	close(m.closing)
	late := time.AfterFunc(patience, m.stop)
	m.ended.Wait()
	late.Stop()
	m.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.tell()
	if err == nil && (len(m.queue) > 0 || m.lost > 0) {
		err = fmt.Errorf("%d figures were not sent; a process that continues the run will", len(m.queue)+m.lost)
	}
	return err
}

// tell returns a failure once. The lock is held.
func (m *mlflow) tell() error {
	err := m.untold
	m.untold = nil
	return err
}

// work sends until the run has ended, or until the server refuses for good.
func (m *mlflow) work(ctx context.Context) {
	begun, pause := false, m.limits.pause
	for ctx.Err() == nil {
		m.mu.Lock()
		batch, end := m.queue[:min(len(m.queue), m.limits.batch)], m.end
		m.mu.Unlock()
		var err error
		switch {
		case !begun: // whatever a failed request did, the server says what it has
			var has map[string]int64
			if has, err = m.session.begin(ctx); err == nil {
				begun = true
				m.forget(has)
			}
		case len(batch) > 0:
			if err = m.session.log(ctx, batch); err == nil {
				pause = m.limits.pause
				m.mu.Lock()
				m.queue = m.queue[len(batch):]
				m.mu.Unlock()
			}
		case end != nil:
			m.failed(m.session.end(ctx, *end))
			return
		default:
			select {
			case <-m.wake:
			case <-m.closing:
			case <-ctx.Done():
			}
			continue
		}
		m.failed(err)
		if err == nil {
			continue
		}
		if _, refused := errors.AsType[*refusal](err); refused {
			m.mu.Lock()
			m.lost, m.queue, m.refused = m.lost+len(m.queue), nil, true
			m.mu.Unlock()
			return
		}
		if end != nil {
			return
		}
		begun = false
		select {
		case <-time.After(pause):
		case <-m.closing:
		case <-ctx.Done():
		}
		pause = min(2*pause, m.limits.longest)
	}
}

// forget removes points that the server has from the queue.
func (m *mlflow) forget(has map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.has = has
	m.queue = m.lacking(m.queue)
}

// lacking returns the points that the server lacks: those above the newest step of their key.
func (m *mlflow) lacking(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		last, ok := m.has[metricName(p.Key)]
		return ok && p.Step <= last
	})
}

// failed notes how the last attempt ended.
func (m *mlflow) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = err != nil
	m.untold = cmp.Or(m.untold, err)
}
