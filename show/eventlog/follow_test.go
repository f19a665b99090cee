package eventlog

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

func line(name string) string { return `{"event":"` + name + `","time":"2026-11-21T00:00:00Z"}` + "\n" }

// A run is killed in the middle of a line, resumed, replaced by another; the follower sees every whole line once.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	var seen []string
	f := Follower{Path: path}
	poll := func(want ...string) {
		t.Helper()
		seen = nil
		err := f.Poll(func() { seen = append(seen, "restart") }, func(e Event) { seen = append(seen, e.Name) })
		if err != nil || !slices.Equal(seen, want) {
			t.Fatalf("%q (%v), want %q", seen, err, want)
		}
	}
	add := func(text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	poll()
	add(line("a") + line("b"))
	poll("a", "b")
	poll()
	add(line("c")[:10])
	poll()
	add(line("c")[10:] + "half")
	poll("c")
	log, err := Open(path) // the resumed run removes the half line
	if err != nil {
		t.Fatal(err)
	}
	poll()
	if err := log.Write("resumed", nil); err != nil {
		t.Fatal(err)
	}
	log.Close()
	poll("resumed")
	add("[]\n" + "\n" + line("d"))
	if poll("d"); f.Skipped != 2 {
		t.Errorf("%d lines were skipped", f.Skipped)
	}
	// A line that is too long is skipped however it arrives.
	add(strings.Repeat("x", maxLine+10))
	poll()
	add(strings.Repeat("x", 2*maxLine) + "\n" + line("e"))
	if poll("e"); f.Skipped != 3 {
		t.Errorf("%d lines were skipped", f.Skipped)
	}
	testfile.Write(t, path, line("new"))
	poll("restart", "new")
	other := path + ".other"
	testfile.Write(t, other, strings.Repeat(line("other"), 3))
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	poll("restart", "other", "other", "other")
}

// Whatever the log holds and wherever its parts end, the follower sees the events that are in whole lines.
func FuzzFollow(f *testing.F) {
	f.Add([]byte(line("a")+line("b")+"{"), uint16(5))
	f.Add([]byte("\n\n[]\n"+line("a")+"half"), uint16(1))
	f.Fuzz(func(t *testing.T, content []byte, cut uint16) {
		path := filepath.Join(t.TempDir(), "e")
		var want []string
		for whole := range bytes.Lines(content) {
			if e, err := parseEvent(whole); err == nil && bytes.HasSuffix(whole, []byte("\n")) {
				want = append(want, e.Name)
			}
		}
		var seen []string
		follower := Follower{Path: path}
		at := min(int(cut), len(content))
		for _, part := range [][]byte{content[:at], content} {
			testfile.Write(t, path, part)
			err := follower.Poll(func() { t.Error("restarted") }, func(e Event) { seen = append(seen, e.Name) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
	})
}
