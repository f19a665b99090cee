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
	bar   *pb.ProgressBar
	tty   bool
}

const logEvery = 30 * time.Second

func (a *app) progress() *progress {
	f, ok := a.err.(interface {
		io.Writer
		Fd() uintptr
	})
	// A dumb terminal, such as an editor's, shows the codes that move a bar as they are.
	return &progress{a: a, tty: ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))}
}

func (p *progress) begin(name string) {
	p.name, p.begun, p.last = name, time.Now(), time.Now()
}

func (p *progress) update(done, total int) {
	if p.a.quiet || done == 0 {
		return
	}
	if !p.tty {
		if time.Since(p.last) >= logEvery {
			p.last = time.Now()
			spent := time.Since(p.begun)
			left := time.Duration(float64(spent) / float64(max(1, done)) * float64(total-done))
			p.a.say("%-28s %d/%d  %s  %s left", p.name, done, total, rate(done, spent), left.Round(time.Second))
		}
		return
	}
	if p.bar == nil {
		p.bar = pb.New(total).SetWriter(p.a.err).SetTemplateString(
			`{{string . "name"}} {{bar . }} {{counters . }} {{speed . "%s/s"}} {{rtime . "%s left"}}`)
		p.bar.Set("name", fmt.Sprintf("%-24s", p.name)).Set(pb.CleanOnFinish, true).Start()
	}
	p.bar.SetTotal(int64(total)).SetCurrent(int64(done))
}

// rate says how fast a stage goes: what is done in a second or, where that is less than one, the time for each.
func rate(done int, spent time.Duration) string {
	if perSecond := float64(done) / spent.Seconds(); perSecond >= 1 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return (spent / time.Duration(max(1, done))).Round(100*time.Millisecond).String() + " each"
}

func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish()
		p.bar = nil
	}
	p.a.say("%-28s %s", p.name, time.Since(p.begun).Round(100*time.Millisecond))
}
