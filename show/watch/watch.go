package watch

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"popri/internal/parallel"
	"popri/internal/rundir"
	"popri/show/eventlog"
	"popri/show/series"
)

// About says what a run is, as far as its log does not.
type About struct {
	Title, Subtitle string
	Rounds          int
	Series          series.Set // which figures of the rounds are shown, and how
}

// Options say what to watch.
type Options struct {
	Dir string // the run's folder; it may not exist yet
	// Describe returns what a run is; it is called until the folder has a configuration.
	Describe func(dir string) (About, error)
	// Token allows anyone who sends it to request a stop; "" allows nobody.
	Token string
}

// Watcher follows a run and serves it to any number of viewers. [Watcher.Run] does the reading, once for all of them.
type Watcher struct {
	Options

	over chan struct{} // closed when no more is served

	mu       sync.Mutex // guards all below
	changed  chan struct{}
	follower eventlog.Follower
	state    *state
	about    About
	known    bool // about is
	fresh    bool // nothing is read yet: all sections are made

	privacy     privacy
	delta       float64
	ledgerMark  string
	ledgerTries int
	texts       roundTexts
	textsMark   string
	problem     string // the last error of a look at the folder
	sections    map[string]section
	version     int
}

// section is a part of the page as JSON. Versions count all changes of all sections.
type section struct {
	data    []byte
	version int
}

// New makes a watcher.
func New(o Options) *Watcher {
	return &Watcher{Options: o, over: make(chan struct{}), changed: make(chan struct{}), state: newState(), fresh: true,
		sections: map[string]section{}, follower: eventlog.Follower{Path: filepath.Join(o.Dir, rundir.Events)}}
}

// Run looks at the folder each second until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	w.look(time.Now())
	defer parallel.Every(time.Second, func() { w.look(time.Now()) })()
	<-ctx.Done()
}

// look reads what is new and shows it to the viewers. An error is shown on the page; the next look may not have it.
func (w *Watcher) look(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.version
	problem := ""
	if err := w.read(now); err != nil {
		problem = err.Error()
	}
	if problem != w.problem {
		w.problem = problem
		_ = w.set("problem", problem)
	}
	if w.version != before {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

func (w *Watcher) read(now time.Time) error {
	if !w.known && rundir.Exists(w.Dir) {
		about, err := w.Describe(w.Dir)
		if err != nil {
			return err
		}
		w.about, w.known, w.fresh = about, true, true
	}
	events, ended := w.fresh, w.state.ends
	restart := func() { w.state, w.fresh, w.ledgerMark, w.textsMark = newState(), true, "", "" }
	each := func(e eventlog.Event) { w.state.add(e); events = true }
	if err := w.follower.Poll(restart, each); err != nil {
		return err
	}
	spent := w.readPrivacy()
	// Pictures of the rounds are drawn again when a round or a stage has ended, not at each event.
	fresh := w.fresh || spent || ended != w.state.ends
	w.fresh = false
	for _, s := range []struct {
		name string
		due  bool
		make func() any
	}{
		{secHead, true, func() any { return w.head(now) }},
		{secStage, events, func() any { return w.state.stage }},
		{secPrivacy, fresh, func() any { return w.privacy }},
		{secCharts, fresh, func() any { return w.charts() }},
		{secSteps, events, func() any { return w.steps() }},
		{secTable, fresh, func() any { return w.table() }},
		{secTimes, fresh, func() any { return w.times() }},
		{secTexts, w.readTexts() || fresh, func() any { return w.texts }},
	} {
		if s.due {
			if err := w.set(s.name, s.make()); err != nil {
				return err
			}
		}
	}
	return nil
}

// since returns the sections that are newer than a version, the newest version, and a channel that is closed at the
// next change.
func (w *Watcher) since(version int) (news map[string][]byte, newest int, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	news = map[string][]byte{}
	for name, s := range w.sections {
		if s.version > version {
			news[name] = s.data
		}
	}
	return news, w.version, w.changed
}
