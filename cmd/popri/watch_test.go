package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"popri/internal/rundir"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// printedLines passes on what is written to it, a line at a time.
type printedLines struct {
	mu   sync.Mutex
	text strings.Builder
	seen chan string
}

func (l *printedLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	for line := range strings.Lines(string(b)) {
		select {
		case l.seen <- strings.TrimSuffix(line, "\n"):
		default:
		}
	}
	return len(b), nil
}

func fetch(t *testing.T, method, url string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// A run with --watch prints an address; anyone who has the token in it stops the run after a round, and --resume continues.
func TestRunIsWatchedAndStopped(t *testing.T) {
	w := testworld.Make(t)
	dir := filepath.Join(t.TempDir(), "run")
	errs := &printedLines{seen: make(chan string, 1000)}
	a := &app{out: io.Discard, err: errs}
	ended := make(chan int, 1)
	go func() {
		ended <- a.execute(t.Context(), []string{"run", "--config", w.File, "--out", dir, "--watch", "--allow-stop",
			"--set", "trainer.rounds=50", "--set", "synthetic.texts=20"})
	}()
	var url, token string
	for url == "" {
		select {
		case line := <-errs.seen:
			if rest, ok := strings.CutPrefix(line, "watch: "); ok {
				url, token, _ = strings.Cut(rest, "#token=")
			}
		case code := <-ended:
			t.Fatalf("exit code %d: %s", code, errs.text.String())
		}
	}
	if code, page := fetch(t, "GET", url); code != 200 || !strings.Contains(page, "popri watch") {
		t.Errorf("%d: %s", code, page)
	}
	for asked := false; !asked; time.Sleep(20 * time.Millisecond) {
		switch code, body := fetch(t, "POST", url+"stop", "X-Popri-Token", token); code {
		case 200:
			asked = true
		case 409: // no round has begun yet
		default:
			t.Fatalf("%d: %s", code, body)
		}
	}
	if code := <-ended; code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, errs.text.String())
	}
	if text := errs.text.String(); !strings.Contains(text, "popri run --resume --out "+dir) ||
		!strings.Contains(text, "stopped after round ") ||
		!strings.Contains(text, "watch: the page has ended; this shows it again: popri watch "+dir) {
		t.Errorf("the run says\n%s", text)
	}
	if rundir.Has(dir, rundir.Stop) || !rundir.Has(dir, rundir.Latest) || rundir.Has(dir, rundir.Synthetic) {
		t.Error("the request is still there, no round is complete, or the run went on")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &printedLines{seen: make(chan string, 10)}
	served := make(chan int, 1)
	go func() { served <- (&app{out: out, err: io.Discard}).execute(ctx, []string{"watch", dir, "--json"}) }()
	var printed struct{ URL, Metrics, Run string }
	if err := json.Unmarshal([]byte(<-out.seen), &printed); err != nil || printed.Run != dir {
		t.Fatalf("%+v (%v)", printed, err)
	}
	status := ""
	for begun := time.Now(); !strings.Contains(status, `{status="stopped"} 1`) &&
		time.Since(begun) < time.Minute; time.Sleep(20 * time.Millisecond) {
		_, status = fetch(t, "GET", printed.Metrics)
	}
	if !strings.Contains(status, `{status="stopped"} 1`) {
		t.Errorf("the metrics are\n%s", status)
	}
	if code, _ := fetch(t, "POST", printed.URL+"stop", "X-Popri-Token", token); code != 403 {
		t.Errorf("a page without --allow-stop answers %d", code)
	}
	cancel()
	if code := <-served; code != 0 {
		t.Errorf("the end of watching has exit code %d", code)
	}
}

// A flood of viewers takes no file handle that the run needs: with 64 of them it ends as it does alone.
func TestFloodOfViewers(t *testing.T) {
	w := testworld.Shared(t)
	dir := filepath.Join(t.TempDir(), "run")
	cmd := limitedTo(t, "-n 64", "run", "--config", w.File, "--out", dir, "--watch")
	errs := &printedLines{seen: make(chan string, 1000)}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := ""
	for !strings.HasPrefix(line, "watch: http://") {
		select {
		case line = <-errs.seen:
		case <-time.After(time.Minute):
			t.Fatal(errs.text.String())
		}
	}
	address := strings.Trim(strings.TrimPrefix(line, "watch: http://"), "/")
	for range 300 {
		viewer, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			break // the system's queue is full
		}
		defer viewer.Close()
		if _, err := io.WriteString(viewer, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil || !rundir.Has(dir, rundir.Synthetic) {
		t.Errorf("%v: %s", err, errs.text.String())
	}
}

func TestWatchMistakes(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := popri(t, "watch", dir); code != exitUsage || !strings.Contains(errs, dir) {
		t.Errorf("no run: %d, %s", code, errs)
	}
	if code, _, errs := popri(t, "run", "--preset", "demo", "--out", filepath.Join(dir, "x"),
		"--allow-stop"); code != exitUsage || !strings.Contains(errs, "--watch") {
		t.Errorf("--allow-stop alone: %d, %s", code, errs)
	}
	testfile.Write(t, filepath.Join(dir, rundir.Config), "")
	if code, _, errs := popri(t, "watch", dir, "--addr", "nowhere:x"); code != exitUsage ||
		!strings.Contains(errs, "nowhere") {
		t.Errorf("a bad address: %d, %s", code, errs)
	}
}
