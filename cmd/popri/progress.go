package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
	"golang.org/x/term"

	"popri/internal/parallel"
	"popri/methods/rounds"
	"popri/show/report"
	"popri/show/series"
)

// progress shows one stage after the other. A terminal gets a bar with rate and time left, a log a line at the end of
// each stage and at most one every half minute. A stage that reports nothing is shown as under way.
type progress struct {
	a     *app
	tty   bool
	every time.Duration // between two lines in a log

	mutex  sync.Mutex // updates come from several goroutines, and the clock has one of its own
	name   string
	begun  time.Time
	last   time.Time // of the newest line in a log
	heard  time.Time // of the newest update
	pace   pace
	told   bool // the stage has said how much is done
	bar    *pb.ProgressBar
	ticker func() // ends the clock of the stage under way; nil if there is none
}

const logEvery = 30 * time.Second

// quietFor is how long a stage may show nothing on a terminal, which soon looks as if the program hung.
const quietFor = 2 * time.Second

func (a *app) progress() *progress {
	// A dumb terminal, such as an editor's, shows the codes that move a bar as they are.
	return &progress{a: a, tty: os.Getenv("TERM") != "dumb" && isTerminal(a.err), every: logEvery}
}

// stages shows the parts of a work that names each as it comes.
func (p *progress) stages() func(name string, done, total int) {
	stage := ""
	return func(name string, done, total int) {
		if name != stage {
			stage = name
			p.begin(name)
		}
		p.update(done, total)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) begin(name string) {
	p.stop()
	p.a.show(p)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.name, p.begun, p.last, p.pace, p.told = name, time.Now(), time.Now(), pace{}, false
	p.heard = p.begun
	if p.a.quiet {
		return
	}
	p.ticker = parallel.Every(min(p.every, quietFor), p.lasts)
}

// lasts shows that a stage lasts which has told nothing yet, or nothing for long.
func (p *progress) lasts() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case p.tty && p.bar == nil:
		p.bar = pb.New(0).SetWriter(p.a.err).SetTemplateString(`{{string . "name"}} {{etime . "%s"}}`)
		p.bar.Set("name", fmt.Sprintf("%-24s", p.name)).Set(pb.CleanOnFinish, true).Start()
	case !p.tty && time.Since(p.last) >= p.every && time.Since(p.heard) >= p.every:
		p.last = time.Now()
		p.a.say("%-28s %s so far", p.name, time.Since(p.begun).Round(time.Second))
	}
}

func (p *progress) update(done, total int) {
	if p.a.quiet || done == 0 {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.heard = time.Now()
	words := ""
	if rate, left, ok := p.pace.measure(time.Now(), done, total); ok {
		words = paceWords(rate) + "  " + left.Round(time.Second).String() + " left"
	}
	if !p.tty {
		if time.Since(p.last) >= p.every {
			p.last = time.Now()
			p.a.say("%-28s %d/%d  %s", p.name, done, total, words)
		}
		return
	}
	if p.bar != nil && !p.told { // it shows the time alone
		p.bar.Finish()
		p.bar = nil
	}
	if p.told = true; p.bar == nil {
		p.bar = pb.New(total).SetWriter(p.a.err).SetTemplateString(
			`{{string . "name"}} {{bar . }} {{counters . }} {{string . "pace"}}`)
		p.bar.Set("name", fmt.Sprintf("%-24s", p.name)).Set(pb.CleanOnFinish, true).Start()
	}
	p.bar.Set("pace", words).SetTotal(int64(total)).SetCurrent(int64(done))
}

// paceWords says how fast a stage goes: what is done in a second or, where that is less than one, the time for each.
func paceWords(rate float64) string {
	if rate >= 1 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return time.Duration(float64(time.Second)/rate).Round(100*time.Millisecond).String() + " each"
}

// stop ends what shows the stage, without a line.
func (p *progress) stop() {
	if p.ticker != nil { // without the mutex, which its function takes
		p.ticker()
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ticker = nil; p.bar != nil {
		p.bar.Finish()
		p.bar = nil
	}
}

// endIfLong ends a stage that is worth a line only if somebody waited for it.
func (p *progress) endIfLong() {
	if time.Since(p.begun) < time.Second {
		p.stop()
		return
	}
	p.end()
}

func (p *progress) end() {
	p.stop()
	p.a.say("%-28s %s", p.name, time.Since(p.begun).Round(100*time.Millisecond))
}

// events prints the progress of a run: on a terminal, a moving line with rate and time left; in a log, a line a stage.
func (a *app) events(columns []series.Series) rounds.Events {
	p := a.progress()
	name := func(s rounds.Stage) string {
		if s.Round > 0 {
			return fmt.Sprintf("round %d  %s", s.Round, s.Name)
		}
		return s.Name
	}
	return rounds.Events{
		StageBegin: func(s rounds.Stage) { p.begin(name(s)) },
		Progress:   func(_ rounds.Stage, done, total int) { p.update(done, total) },
		StageEnd: func(s rounds.Stage) {
			if s.Opening {
				p.endIfLong()
			} else {
				p.end()
			}
		},
		Say: func(text string) { a.say("%s", text) },
		RoundEnd: func(r series.Round) {
			var figures []string
			for _, c := range columns {
				if v := r.Get(c.Key); v != nil {
					figures = append(figures, fmt.Sprintf("%s %s", report.Lowered(c.Name), report.Figure(c, *v)))
				}
			}
			a.say("round %d  done: %s", r.Number, strings.Join(figures, ", "))
		},
	}
}

// warn prints a warning before the run begins.
func (a *app) warn(text string) {
	a.lines.Lock()
	defer a.lines.Unlock()
	fmt.Fprintln(a.err, "warning: "+text)
}
