package run

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// tracker is an MLflow server that holds one run, and a collector of its traces.
type tracker struct {
	mu     sync.Mutex
	Values map[string]float64 // by key and step
	Newest map[string]int64   // step of each key
	Twice  []string           // the keys and steps that came again
	Status string
	Traced []byte
}

func (s *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		Status  string
		Metrics []struct {
			Key   string
			Value float64
			Step  int64
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	if body.Status != "" {
		s.Status = body.Status
	}
	for _, m := range body.Metrics {
		at := fmt.Sprintf("%s@%d", m.Key, m.Step)
		if _, ok := s.Values[at]; ok {
			s.Twice = append(s.Twice, at)
		}
		s.Values[at], s.Newest[m.Key] = m.Value, m.Step
	}
	var newest []map[string]any
	for key, step := range s.Newest {
		newest = append(newest, map[string]any{"key": key, "step": step})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"experiment": map[string]any{"experiment_id": "1"},
		"run": map[string]any{"info": map[string]any{"run_id": "r"}, "data": map[string]any{"metrics": newest}}})
}

// newTracker starts the servers and names them in the test's environment.
func newTracker(t *testing.T) *tracker {
	s := &tracker{Values: map[string]float64{}, Newest: map[string]int64{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	traces := httptest.NewServer(http.HandlerFunc(s.spans))
	t.Cleanup(traces.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traces.URL)
	return s
}

// spans keeps what a collector of traces is sent; package trackers tests what it says.
func (s *tracker) spans(_ http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Traced = append(s.Traced, b...)
}
