package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// emit prints a verb's result: as one JSON object with --json, else as text.
func (a *app) emit(result any, text func(w io.Writer)) error {
	if a.json {
		return json.NewEncoder(a.out).Encode(result)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// figure is a number that JSON shows as "inf" where it is infinite.
type figure float64

func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(f))
}

// progress shows how far a long step is: a line that is rewritten on a terminal, now and then a line of its own in a log.
type progress struct {
	a        *app
	what     string // what is counted: "samples"
	terminal bool
	begun    time.Time
	shown    time.Time
}

func (a *app) progress(what string) *progress {
	f, ok := a.err.(interface{ Fd() uintptr })
	return &progress{a: a, what: what, terminal: ok && term.IsTerminal(int(f.Fd())), begun: time.Now(), shown: time.Now()}
}

// update tells that done of total are finished.
func (p *progress) update(done, total int) {
	pause := 10 * time.Second
	if p.terminal {
		pause = 200 * time.Millisecond
	}
	if p.a.quiet || time.Since(p.shown) < pause || done == 0 {
		return
	}
	p.shown = time.Now()
	rate := float64(done) / time.Since(p.begun).Seconds()
	line := fmt.Sprintf("%d of %d %s, %.1f/s, %.0f s left", done, total, p.what, rate, float64(total-done)/rate)
	if p.terminal {
		fmt.Fprintf(p.a.err, "\r%s\x1b[K", line)
	} else {
		fmt.Fprintln(p.a.err, line)
	}
}

// end removes what update left on a terminal.
func (p *progress) end() {
	if p.terminal && !p.a.quiet {
		fmt.Fprint(p.a.err, "\r\x1b[K")
	}
}
