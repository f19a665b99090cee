package watch

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"popri/accountant/guarantee"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/internal/rundir"
	"popri/show/report"
)

// Sections of the page. Each is sent when it has changed, so that a step of the training costs a viewer a few
// kilobytes.
const (
	secHead    = "head"
	secStage   = "stage"
	secPrivacy = "privacy"
	secCharts  = "charts"
	secSteps   = "steps"
	secTable   = "table"
	secTimes   = "times"
	secTexts   = "texts"
)

// silence is the time without an event after which a run counts as not alive. A run writes one every five seconds; the
// rest is for machines that are busy.
const silence = 40 * time.Second

// Status of a run.
const (
	waiting  = "waiting"  // nothing has begun
	running  = "running"  // events arrive
	complete = "complete" // the synthetic set is there
	stopped  = "stopped"  // after a round, because it was asked to
	ended    = "ended"    // in order, before it was complete
	silent   = "silent"   // no sign of life: killed, or the machine sleeps
)

func (w *Watcher) status(now time.Time) string {
	s := w.state
	product := rundir.Complete(w.Dir)
	alive := !s.closed && now.Sub(s.last) < silence
	switch {
	case s.last.IsZero():
		return waiting
	case alive:
		return running
	case product:
		return complete
	case s.closed && s.stopped > 0:
		return stopped
	case s.closed:
		return ended
	}
	return silent
}

// canStop reports whether a round is under way after which the run can stop.
func (w *Watcher) canStop(status string) bool {
	outside := w.state.stage.Name != "" && w.state.stage.Round == 0
	return status == running && !outside && len(w.state.rounds) < w.about.Rounds
}

type head struct {
	Title     string `json:"title"`
	Subtitle  string `json:"subtitle"`
	Status    string `json:"status"`
	Note      string `json:"note"`
	Done      int    `json:"done"`
	Planned   int    `json:"planned"`
	Last      int64  `json:"last"` // milliseconds since 1970; 0 if there was no event
	MayStop   bool   `json:"may_stop"`
	CanStop   bool   `json:"can_stop"`
	Requested bool   `json:"requested"`
	Report    bool   `json:"report"` // it is there
	Again     string `json:"again"`  // the command that shows the page again
}

func (w *Watcher) head(now time.Time) head {
	status := w.status(now)
	h := head{Title: w.about.Title, Subtitle: w.about.Subtitle, Status: status, Done: len(w.state.rounds),
		Planned: w.about.Rounds, MayStop: w.Token != "", CanStop: w.canStop(status), Requested: rundir.Has(w.Dir,
			rundir.Stop), Report: rundir.Has(w.Dir, rundir.Report), Again: quote.Shell("popri", "watch", w.Dir)}
	resume := quote.Shell("popri", "run", "--resume", "--out", w.Dir)
	switch status {
	case waiting:
		h.Note = "No figure is there yet: a run reads its data and loads its models before its first stage, which " +
			"takes seconds to minutes."
	case complete:
		name := rundir.Synthetic
		if rundir.Has(w.Dir, rundir.Small) {
			name = rundir.Small
		}
		h.Note = "The run is complete: " + filepath.Join(w.Dir, name)
	case stopped:
		h.Note = fmt.Sprintf("Stopped after round %d, as asked. Go on with: %s", w.state.stopped, resume)
	case ended:
		h.Note = "The process ended before the run was complete. Go on with: " + resume
	case silent:
		h.Note = fmt.Sprintf("No sign of life since %s: the process was killed, or the machine sleeps. If it was "+
			"killed, go on with: %s", w.state.last.UTC().Format("2 January, 15:04:05 MST"), resume)
	}
	if !w.state.last.IsZero() {
		h.Last = w.state.last.UnixMilli()
	}
	return h
}

type privacy struct {
	Epsilon  float64  `json:"epsilon"`
	Spent    float64  `json:"spent"`
	Share    string   `json:"share"` // how much is spent, in a few words
	Words    string   `json:"words"`
	Warnings []string `json:"warnings"`
	Problem  string   `json:"problem,omitempty"`
}

// readPrivacy reads the ledger again if it has changed: accounting may take seconds.
func (w *Watcher) readPrivacy() (changed bool) {
	info, err := os.Stat(filepath.Join(w.Dir, rundir.Ledger))
	if err != nil {
		return false
	}
	mark := fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	if mark == w.ledgerMark {
		return false
	}
	f, err := guarantee.Read(w.Dir)
	if err != nil {
		// The head of a ledger is written after it. A reader between the two finds them in disagreement for a moment.
		if w.ledgerTries++; w.ledgerTries < 5 {
			return false
		}
		w.privacy = privacy{Problem: "the ledger cannot be read: " + err.Error()}
	} else {
		b := f.Record.Budget
		w.privacy = privacy{Epsilon: b.Epsilon, Spent: f.Spent, Share: "Nobody is protected",
			Words: report.Readable(f.Headline())}
		if f.Protects() {
			w.privacy.Share, w.privacy.Words = f.Share()+" spent", report.Readable(f.Spending()+" "+f.Protected())
		}
		w.privacy.Warnings = numeric.Map(f.Warnings(), report.Readable)
		w.delta = b.Delta
	}
	w.ledgerMark, w.ledgerTries = mark, 0
	return true
}

type htmlSection struct {
	HTML string `json:"html"`
}

// charts draws the plots of the rounds.
func (w *Watcher) charts() (all htmlSection) {
	for _, p := range w.about.Series.Plots {
		all.HTML += report.PlotRounds(p, w.state.rounds, w.privacy.Epsilon)
	}
	return all
}

// steps draws the curves that grow within a round.
func (w *Watcher) steps() (all htmlSection) {
	for _, name := range slices.Sorted(maps.Keys(w.state.steps)) {
		c := w.state.steps[name]
		last := c.points[len(c.points)-1]
		x, y := c.xy()
		note := fmt.Sprintf("the last one %.4f", last.y)
		all.HTML += report.PlotCurve(strings.ToUpper(name)+" loss of each update", note, "update", x, y)
	}
	if n := len(w.state.memory.points); n > 0 {
		x, y := w.state.memory.xy()
		unit := "minute"
		if x[n-1] > 180 {
			unit = "hour"
			for i := range x {
				x[i] /= 60
			}
		}
		note := fmt.Sprintf("GiB; now %.2f, the most %.2f", w.state.bytes/(1<<30), w.state.peak/(1<<30))
		all.HTML += report.PlotCurve("Memory", note, unit, x, y)
	}
	return all
}

type table struct {
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
}

func (w *Watcher) table() table {
	head, rows := report.RoundTable(w.about.Series, w.state.rounds)
	return table{head, rows}
}

func (w *Watcher) times() table {
	t := table{Head: []string{"Stage", "Time"}}
	measured := slices.ContainsFunc(w.state.times, func(s stageTime) bool { return s.peak > 0 })
	if measured {
		t.Head = append(t.Head, "Memory, GiB")
	}
	for _, s := range w.state.times {
		row := []string{s.name, report.Duration(s.seconds)}
		if measured {
			row = append(row, fmt.Sprintf("%.2f", s.peak/(1<<30)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// set keeps a section if it has changed.
func (w *Watcher) set(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("watch: %s: %w", name, err)
	}
	if old, ok := w.sections[name]; !ok || string(old.data) != string(b) {
		w.version++
		w.sections[name] = section{b, w.version}
	}
	return nil
}

// known is a number as JSON can hold it.
func known(v float64) *float64 {
	if !numeric.Finite(v) {
		return nil
	}
	return &v
}
