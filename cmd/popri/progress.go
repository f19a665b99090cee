package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cheggaaa/pb/v3"
	"golang.org/x/term"
)

// progress shows one stage after the other. A terminal gets a bar with rate and time left, a log a line at the end of each
// stage and at most one every half minute.
type progress struct {
	a     *app
	name  string
	begun time.Time
	last  time.Time
	pace  pace
	bar   *pb.ProgressBar
	tty   bool
}

const logEvery = 30 * time.Second

func (a *app) progress() *progress {
	// A dumb terminal, such as an editor's, shows the codes that move a bar as they are.
	return &progress{a: a, tty: os.Getenv("TERM") != "dumb" && isTerminal(a.err)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) begin(name string) {
	p.name, p.begun, p.last, p.pace = name, time.Now(), time.Now(), pace{}
}

func (p *progress) update(done, total int) {
	if p.a.quiet || done == 0 {
		return
	}
	words := ""
	if rate, left, ok := p.pace.measure(time.Now(), done, total); ok {
		words = paceWords(rate) + "  " + left.Round(time.Second).String() + " left"
	}
	if !p.tty {
		if time.Since(p.last) >= logEvery {
			p.last = time.Now()
			p.a.say("%-28s %d/%d  %s", p.name, done, total, words)
		}
		return
	}
	if p.bar == nil {
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

func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish()
		p.bar = nil
	}
	p.a.say("%-28s %s", p.name, time.Since(p.begun).Round(100*time.Millisecond))
}
