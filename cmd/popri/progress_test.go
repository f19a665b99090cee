package main

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// lineLog keeps what is written to it and signals each line.
type lineLog struct {
	mutex sync.Mutex
	text  strings.Builder
	lines chan string
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text.Write(b)
	select {
	case l.lines <- string(b):
	default:
	}
	return len(b), nil
}

// count is how often a text was written.
func (l *lineLog) count(text string) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *lineLog) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, want) {
				return
			}
		case <-late:
			t.Fatalf("no line with %q", want)
		}
	}
}

// A stage that reports nothing is shown in a log as under way, as often as one that reports. A stage that failed is not
// shown after another begins or the program ends.
func TestSilentStageShowsThatItLasts(t *testing.T) {
	log := &lineLog{lines: make(chan string, 1000)}
	a := &app{err: log}
	p := a.progress()
	p.every = 10 * time.Millisecond
	p.begin("load the model")
	log.await(t, "so far")
	for begun := time.Now(); log.count("4/10") == 0; p.update(4, 10) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("updates give no line")
		}
	}
	other := a.progress()
	other.every = p.every
	other.begin("the next")
	before := log.count("load the model")
	log.await(t, "the next")
	other.end()
	a.show(nil)
	if log.count("load the model") > before {
		t.Errorf("a stage that failed is still shown:\n%s", log.text.String())
	}
	if p.ticker != nil || other.ticker != nil {
		t.Error("a clock goes on")
	}
}

// --quiet shows nothing of a stage, and a short part before a run no line.
func TestQuietStages(t *testing.T) {
	log := &lineLog{lines: make(chan string, 1000)}
	a := &app{err: log}
	p := a.progress()
	p.begin("read data")
	p.endIfLong()
	a.quiet = true
	p.every = time.Millisecond
	p.begin("load the model")
	time.Sleep(20 * p.every)
	p.update(1, 2)
	p.end()
	if log.text.Len() > 0 {
		t.Errorf("%s", log.text.String())
	}
}
