package watch

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"popri/internal/atomicfile"
	"popri/internal/rundir"
	"popri/show/report"
)

//go:embed page.html
var pageHTML []byte

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

const (
	// maxConnections is the number of connections at once. Each takes a file handle, and the process that serves the
	// page may be the one that makes the run, which needs handles more: a quarter of them is the most.
	maxConnections = 96
	// beat keeps proxies and browsers from ending a quiet stream.
	beat = 15 * time.Second
	// patience is the time that a viewer has to read what was sent; one that sleeps is dropped and comes back by
	// itself.
	patience = 20 * time.Second
	// tokenHeader carries the token. Another site's page cannot send it without this server's consent.
	tokenHeader = "X-Popri-Token"
)

// Serve serves the page on a listener until ctx ends. Viewers then get what is new, such as the end of the run.
func (w *Watcher) Serve(ctx context.Context, l net.Listener) error {
	return Serve(ctx, l, w.Handler(l.Addr().String()), func() {
		w.look(time.Now())
		close(w.over)
	})
}

// Handler serves the page, its stream and the metrics. See [Guard].
func (w *Watcher) Handler(addr string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", Static("text/html", pageHTML))
	mux.HandleFunc("GET /style.css", Static("text/css", []byte(report.StyleSheet+pageCSS)))
	mux.HandleFunc("GET /page.js", Static("text/javascript", []byte(report.SaveScript+pageJS)))
	mux.HandleFunc("GET /favicon.ico", func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /"+rundir.Report, w.page(rundir.Report))
	mux.HandleFunc("GET /"+report.TextsFile(rundir.Report), w.page(report.TextsFile(rundir.Report)))
	mux.HandleFunc("GET /events", w.stream)
	mux.HandleFunc("GET /metrics", w.metrics)
	mux.HandleFunc("POST /stop", w.stop)
	mux.HandleFunc("DELETE /stop", w.withdraw)
	return Guard(addr, mux)
}

// page serves a page of the run's folder. It has its own policy, and the sandbox keeps what it holds from this server
// and from the token.
func (w *Watcher) page(name string) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		f, err := os.Open(filepath.Join(w.Dir, name))
		if err != nil {
			http.Error(out, "watch: "+name+" is not written yet", http.StatusNotFound)
			return
		}
		defer f.Close()
		out.Header().Set("Content-Security-Policy", "sandbox allow-scripts allow-downloads; frame-ancestors 'none'")
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.ServeContent(out, in, "", time.Time{}, f)
	}
}

// stream sends all sections, and then each that changes. A viewer that reconnects gets all again.
func (w *Watcher) stream(out http.ResponseWriter, in *http.Request) {
	out.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(out)
	send := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patience))
		_, err := fmt.Fprintf(out, format, args...)
		return err == nil
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for version, over := 0, false; ; {
		news, newest, changed := w.since(version)
		for _, name := range order {
			if data, ok := news[name]; ok && !send("event: %s\ndata: %s\n\n", name, data) { // JSON has no line ends
				return
			}
		}
		if version = newest; control.Flush() != nil || over {
			return
		}
		select {
		case <-in.Context().Done():
			return
		case <-changed:
		case <-w.over:
			over = true
		case <-ticker.C:
			if !send(": still here\n\n") {
				return
			}
		}
	}
}

// order is the order of the sections on the page.
var order = []string{"problem", secHead, secStage, secPrivacy, secCharts, secSteps, secTexts, secTable, secTimes}

// mayStop reports whether a request may decide about the run's end, and refuses it if it may not.
func (w *Watcher) mayStop(out http.ResponseWriter, in *http.Request) bool {
	origin := in.Header.Get("Origin")
	switch {
	case w.Token == "":
		http.Error(out, "read only: start popri watch with --allow-stop", http.StatusForbidden)
		return false
	case subtle.ConstantTimeCompare([]byte(in.Header.Get(tokenHeader)), []byte(w.Token)) != 1,
		origin != "" && origin != "http://"+in.Host:
		http.Error(out, "the token is missing or wrong", http.StatusForbidden)
		return false
	}
	return true
}

// withdraw takes the request to stop back. Once the trainer has read it, at the end of the round, it is gone.
func (w *Watcher) withdraw(out http.ResponseWriter, in *http.Request) {
	if !w.mayStop(out, in) {
		return
	}
	err := os.Remove(filepath.Join(w.Dir, rundir.Stop))
	w.look(time.Now())
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(out, "no stop is asked for, or it has taken effect", http.StatusConflict)
		return
	}
	Answer(out, map[string]any{"withdrawn": true}, err)
}

// stop writes the request to stop after the round under way.
func (w *Watcher) stop(out http.ResponseWriter, in *http.Request) {
	if !w.mayStop(out, in) {
		return
	}
	w.mu.Lock()
	can, round := w.canStop(w.status(time.Now())), len(w.state.rounds)+1
	w.mu.Unlock()
	if !can {
		http.Error(out, "no round is under way", http.StatusConflict)
		return
	}
	request := fmt.Appendf(nil, "requested at %s\n", time.Now().UTC().Format(time.RFC3339))
	err := atomicfile.WriteBytes(filepath.Join(w.Dir, rundir.Stop), request)
	if err == nil {
		w.look(time.Now())
	}
	Answer(out, map[string]any{"stops_after_round": round}, err)
}

// statuses are all values of a run's status, for the metrics.
var statuses = slices.Sorted(slices.Values([]string{waiting, running, complete, stopped, ended, silent}))
