package trackers

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"popri/internal/numeric"
)

// Point is the value of a figure at a step.
type Point struct {
	Key   string
	Step  int64 // updates since the run began, or rounds: each key has one axis
	Time  time.Time
	Value float64
}

// Pair is a name with a value.
type Pair struct{ Name, Value string }

// Run describes a run to a tracker.
type Run struct {
	Dir     string // the run's folder
	Name    string // for people
	YAML    []byte // the configuration
	Params  []Pair // its keys
	Tags    []Pair // what else is known: ε, δ, the program's version
	History []Point
	Getenv  func(string) string // the environment
}

// Status is how a process that tracks a run ended.
type Status string

// The ends, by MLflow's names.
const (
	Finished Status = "FINISHED"
	Failed   Status = "FAILED"
	Killed   Status = "KILLED" // interrupted, or waiting for clients elsewhere: the run can go on
)

// End describes the end of a process that tracks a run.
type End struct {
	Status    Status
	Guarantee string // in a sentence
}

// Tracker takes the figures of one run. It is called by one goroutine at a time. No call waits for another machine,
// except that Close may take some seconds.
type Tracker interface {
	// Log adds points. The steps of a key ascend, also from one process to the next. An error says that the tracker
	// lacks figures now; it may be one of an earlier call.
	Log(points []Point) error
	// Close ends the tracking in this process.
	Close(end End) error
}

// Stages is a tracker that shows the stages of a run, too. Its methods are called like Tracker's. Stages follow each
// other; one that fails has no end.
type Stages interface {
	// StageBegin reports that a stage of a round begins; 0 is outside of rounds.
	StageBegin(name string, round int, at time.Time)
	// StageEnd reports that it has ended.
	StageEnd(at time.Time, attributes map[string]int64)
}

// kind is a kind of tracker.
type kind struct {
	name  string
	check func(getenv func(string) string) error // whether the environment lets it begin; nil is always
	open  func(Run) (Tracker, error)
}

var kinds = []kind{
	{"tensorboard", nil, openTensorBoard},
	{"mlflow", checkMLflow, openMLflow},
	{"otel", checkOTel, openOTel},
}

// Names lists the trackers.
func Names() []string { return numeric.Map(kinds, func(k kind) string { return k.name }) }

func find(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Check returns an error if a name is no tracker, or if the environment does not say where the tracker is.
func Check(names []string, getenv func(string) string) error {
	for i, name := range names {
		k, ok := find(name)
		switch {
		case !ok:
			return fmt.Errorf("%q is no tracker; there are %s", name, strings.Join(Names(), ", "))
		case slices.Contains(names[:i], name):
			return fmt.Errorf("the tracker %s is named twice", name)
		}
		if k.check != nil {
			if err := k.check(getenv); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// Set gives points to several trackers. Its methods may be called concurrently.
type Set struct {
	mu   sync.Mutex
	list []*member
	last map[string]int64 // newest step of each key
	warn func(string)
}

type member struct {
	Tracker
	name   string
	warned bool
}

// Open begins to track a run with the named trackers, which [Check] has accepted. A tracker that fails costs one call
// of warn, from Open or from a method of the set, and no more.
func Open(names []string, run Run, warn func(string)) *Set {
	s := &Set{last: map[string]int64{}, warn: warn}
	run.History = s.fresh(run.History)
	for _, name := range names {
		k, ok := find(name)
		if !ok {
			continue
		}
		t, err := k.open(run)
		m := &member{Tracker: t, name: name}
		if s.tell(m, err); err == nil {
			s.list = append(s.list, m)
		}
	}
	return s
}

// fresh removes points whose key has a point at the same or a later step already: a process that is resumed may repeat
// an update that it logged before.
func (s *Set) fresh(points []Point) (out []Point) {
	for _, p := range points {
		if last, ok := s.last[p.Key]; !ok || p.Step > last {
			s.last[p.Key] = p.Step
			out = append(out, p)
		}
	}
	return out
}

func (s *Set) tell(m *member, err error) {
	if err != nil && !m.warned && s.warn != nil {
		m.warned = true
		s.warn(fmt.Sprintf("%s: %v; the run continues without", m.name, err))
	}
}

// Log gives points to all trackers.
func (s *Set) Log(points []Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if points = s.fresh(points); len(points) == 0 {
		return
	}
	for _, m := range s.list {
		s.tell(m, m.Log(points))
	}
}

// StageBegin reports to the trackers that show stages that one begins.
func (s *Set) StageBegin(name string, round int, at time.Time) {
	s.stages(func(t Stages) { t.StageBegin(name, round, at) })
}

// StageEnd reports to them that it has ended.
func (s *Set) StageEnd(at time.Time, attributes map[string]int64) {
	s.stages(func(t Stages) { t.StageEnd(at, attributes) })
}

func (s *Set) stages(tell func(Stages)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.list {
		if t, ok := m.Tracker.(Stages); ok {
			tell(t)
		}
	}
}

// Close ends the tracking.
func (s *Set) Close(end End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.list {
		s.tell(m, m.Close(end))
	}
	s.list = nil
}
