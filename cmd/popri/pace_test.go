package main

import (
	"testing"
	"time"
)

// The time left follows from what happened after the first update, which may have taken minutes or be of an earlier
// process.
func TestPace(t *testing.T) {
	begun := time.Now()
	at := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	var p pace
	if _, _, ok := p.measure(at(120), 1, 101); ok {
		t.Error("the first update tells a rate")
	}
	if _, _, ok := p.measure(at(121), 2, 101); ok {
		t.Error("one second tells a rate")
	}
	if rate, left, ok := p.measure(at(125), 11, 101); !ok || rate != 2 || left != 45*time.Second {
		t.Errorf("%g a second, %v left, %v", rate, left, ok)
	}
	if _, _, ok := p.measure(at(126), 1, 50); ok {
		t.Error("another stage goes on with the rate of the last")
	}
	var resumed pace
	resumed.measure(at(0), 900, 1000)
	if _, left, ok := resumed.measure(at(10), 910, 1000); !ok || left != 90*time.Second {
		t.Errorf("a resumed stage: %v left, %v", left, ok)
	}
}

func TestPaceWords(t *testing.T) {
	for want, rate := range map[string]float64{"20.0/s": 20, "1.0/s": 1, "1m7.5s each": 1 / 67.5} {
		if got := paceWords(rate); got != want {
			t.Errorf("%g is %s, want %s", rate, got, want)
		}
	}
}
