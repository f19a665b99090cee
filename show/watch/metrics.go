package watch

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metrics writes the figures in Prometheus' text format. Names follow its conventions: base units, _total for what only
// grows.
func (w *Watcher) metrics(out http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	page := w.prometheus(time.Now())
	w.mu.Unlock()
	out.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = out.Write(page)
}

func (w *Watcher) prometheus(now time.Time) []byte {
	var b bytes.Buffer
	metric := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind) }
	value := func(name, labels string, v float64) {
		fmt.Fprintf(&b, "%s%s %s\n", name, labels, strconv.FormatFloat(v, 'g', -1, 64))
	}
	gauge := func(name, help string, v float64) {
		metric(name, "gauge", help)
		value(name, "", v)
	}
	s, status := w.state, w.status(now)
	metric("popri_run_status", "gauge", "1 for the status that the run has, 0 for the others.")
	for _, name := range statuses {
		is := 0.0
		if name == status {
			is = 1
		}
		value("popri_run_status", label("status", name), is)
	}
	gauge("popri_rounds_completed", "Complete rounds.", float64(len(s.rounds)))
	gauge("popri_rounds_planned", "Rounds of the configuration.", float64(w.about.Rounds))
	gauge("popri_epsilon_spent", "Epsilon of all releases so far, from the ledger.", w.privacy.Spent)
	gauge("popri_epsilon_budget", "Epsilon that the ledger allows.", w.privacy.Epsilon)
	gauge("popri_delta", "Delta of the budget.", w.delta)
	gauge("popri_resident_bytes", "Resident size of the run's process in the stage under way.", s.bytes)
	gauge("popri_resident_peak_bytes", "Largest resident size of a stage so far.", s.peak)
	if !s.last.IsZero() {
		gauge("popri_last_event_timestamp_seconds", "Time of the newest event.", float64(s.last.UnixMilli())/1000)
	}
	if s.stage.Name != "" {
		labels := label("stage", s.stage.Name)
		metric("popri_stage_done", "gauge", "Parts of the stage under way that are done.")
		value("popri_stage_done", labels, float64(s.stage.Done))
		metric("popri_stage_total", "gauge", "Parts of the stage under way; 0 if it does not say.")
		value("popri_stage_total", labels, float64(s.stage.Total))
	}
	if len(s.times) > 0 {
		metric("popri_stage_seconds_total", "counter", "Time of the stages that ended, over all rounds.")
		for _, t := range s.times {
			value("popri_stage_seconds_total", label("stage", t.name), t.seconds)
		}
	}
	if n := len(s.rounds); n > 0 {
		metric("popri_round_figure", "gauge", "Figures of the newest complete round.")
		for _, key := range s.rounds[n-1].Keys() {
			value("popri_round_figure", label("figure", key), *s.rounds[n-1].Get(key))
		}
	}
	return b.Bytes()
}

func label(name, v string) string {
	return `{` + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n",
		`\n`).Replace(strings.ToValidUTF8(v, "\uFFFD")) + `"}`
}
