package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"popri/show/eventlog"
	"popri/show/series"
)

// state is what the events of a run add up to.
type state struct {
	last    time.Time // of the newest event
	closed  bool      // the process that worked on the run has ended in order
	stopped int       // the round after which the run stopped because it was asked to; 0 if it did not

	stage  stage
	ends   int // of stages and rounds: it changes when a picture of the rounds does
	times  []stageTime
	rounds []series.Round // ascending
	steps  map[string]*curve
	memory curve // GiB by minutes since start
	start  time.Time
	bytes  float64 // resident size now
	peak   float64
}

// stage is the part of the run that is under way.
type stage struct {
	Name  string `json:"name"` // "" if none is
	Round int    `json:"round"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
	// Begun and Seen are milliseconds since 1970: when the stage began, and when Done was true.
	Begun int64 `json:"begun"`
	Seen  int64 `json:"seen"`
}

// stageTime adds up a stage over rounds.
type stageTime struct {
	name    string
	seconds float64
	peak    float64
}

func newState() *state { return &state{steps: map[string]*curve{}} }

// maxNames bounds what a log with made-up names can take: popri itself has about ten.
const maxNames = 100

// add adds an event. Events that it does not know change nothing but the time.
func (s *state) add(e eventlog.Event) {
	s.last = e.Time
	if s.start.IsZero() {
		s.start = e.Time
	}
	round := int(e.Number("round"))
	switch e.Name {
	case "open":
		s.closed, s.stopped, s.stage = false, 0, stage{}
	case "close":
		s.closed, s.stage, s.bytes = true, stage{}, 0
	case "stopped":
		s.stopped = round
	case "stage_begin":
		at := e.Time.UnixMilli()
		s.stage = stage{Name: e.Text("stage"), Round: round, Begun: at, Seen: at}
	case "progress":
		s.stage.Done, s.stage.Total = int(e.Number("done")), int(e.Number("total"))
		s.stage.Seen = e.Time.UnixMilli()
		s.resident(e.Time, e.Number("bytes"))
	case "stage_end":
		s.ends++
		s.stage = stage{}
		s.endStage(e.Text("stage"), e.Number("seconds"), e.Number("peak_bytes"))
	case "round_end":
		s.ends++
		s.endRound(e, round)
	default:
		if name, ok := strings.CutSuffix(e.Name, "_step"); ok {
			s.step(name, round, e)
		}
	}
}

func (s *state) resident(at time.Time, bytes float64) {
	if bytes <= 0 {
		return
	}
	s.bytes, s.peak = bytes, max(s.peak, bytes)
	s.memory.add(at.Sub(s.start).Minutes(), bytes/(1<<30))
}

func (s *state) endStage(name string, seconds, peak float64) {
	s.peak = max(s.peak, peak)
	i := slices.IndexFunc(s.times, func(t stageTime) bool { return t.name == name })
	if i < 0 {
		if len(s.times) == maxNames {
			return
		}
		i, s.times = len(s.times), append(s.times, stageTime{name: name})
	}
	s.times[i].seconds += seconds
	s.times[i].peak = max(s.times[i].peak, peak)
}

// endRound keeps the figures of a round. A round that is done again replaces the old one.
func (s *state) endRound(e eventlog.Event, round int) {
	r := series.NewRound(round)
	for key, v := range e.Fields {
		if f, ok := v.(float64); ok && key != "round" {
			r.Set(key, f)
		}
	}
	i, found := slices.BinarySearchFunc(s.rounds, round,
		func(r series.Round, n int) int { return cmp.Compare(r.Number, n) })
	if found {
		s.rounds[i] = *r
	} else {
		s.rounds = slices.Insert(s.rounds, i, *r)
	}
}

// step adds the loss of an update. A resumed run does the updates of its round again: they replace the old ones.
func (s *state) step(name string, round int, e eventlog.Event) {
	loss, ok := e.Fields["loss"].(float64)
	if !ok {
		return
	}
	c := s.steps[name]
	if c == nil {
		if len(s.steps) == maxNames {
			return
		}
		c = &curve{}
		s.steps[name] = c
	}
	c.addStep(round, int(e.Number("step")), loss)
}
