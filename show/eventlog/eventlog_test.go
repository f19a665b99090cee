package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"popri/testkit/testfile"
)

func TestEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	events, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := events.Write("step",
				map[string]any{"step": i, "loss": 0.5, "text": "a\n<b>"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := events.Write("x", map[string]any{"event": 1}); err == nil {
		t.Error("a field named event is accepted")
	}
	if err := events.Write("x", map[string]any{"f": func() {}}); err == nil {
		t.Error("a function is accepted")
	}
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	if err := events.Write("late", nil); err == nil {
		t.Error("written after Close")
	}
	// A killed process leaves half a line; the next one continues behind the last whole one.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"event":"st`)
	f.Close()
	read := func() (n int, last Event) {
		for e, err := range Read(path) {
			if err != nil {
				t.Fatal(err)
			}
			n, last = n+1, e
		}
		return n, last
	}
	if n, last := read(); n != 20 || last.Name != "step" || last.Number("loss") != 0.5 || last.Time.IsZero() {
		t.Errorf("%d events, the last %+v", n, last)
	}
	if events, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if err := events.Write("resumed", nil); err != nil {
		t.Fatal(err)
	}
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	if n, last := read(); n != 21 || last.Name != "resumed" {
		t.Errorf("%d events, the last %+v", n, last)
	}
}

func TestOpenOnALineWithoutEnd(t *testing.T) {
	for content, want := range map[string]string{
		"": "", "abc": "", "a\nb": "a\n", "a\n": "a\n", strings.Repeat("x", 200_000): "",
		"a\n" + strings.Repeat("x", 200_000): "a\n",
	} {
		path := testfile.Write(t, filepath.Join(t.TempDir(), "e"), content)
		events, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		events.Close()
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%.10q became %.10q", content, got)
		}
	}
}

func TestReadNamesTheLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	good := `{"event":"a","time":"2026-11-21T00:00:00Z"}` + "\n"
	for _, bad := range []string{"[]", "{", `{"event":1}`, `{"event":"a","time":"now"}`} {
		testfile.Write(t, path, good+bad+"\n"+good)
		var last error
		n := 0
		for _, err := range Read(path) {
			last = err
			n++
		}
		if n != 2 || last == nil || !strings.Contains(last.Error(), "line 2") {
			t.Errorf("%s: %d, %v", bad, n, last)
		}
	}
}
