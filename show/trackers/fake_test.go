package trackers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeMLflow is a server with the part of MLflow's API that the tracker uses. Like the real one it adds every figure
// that it gets, so that figures that are sent twice show.
type fakeMLflow struct {
	*httptest.Server
	mu          sync.Mutex
	experiments map[string]string
	runs        []*fakeRun
	// fault, if not nil, may answer a call instead; it says whether it did. done says that the call has had its effect.
	fault func(w http.ResponseWriter, r *http.Request, call string, done bool) bool
	calls map[string]int
}

type fakeRun struct {
	id, experiment, name, status string
	tags, params                 map[string]string
	figures                      []Point
}

func newFakeMLflow(t *testing.T) *fakeMLflow {
	f := &fakeMLflow{experiments: map[string]string{}, calls: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeMLflow) getenv(name string) string {
	return map[string]string{"MLFLOW_TRACKING_URI": f.URL + "/", "MLFLOW_EXPERIMENT_NAME": "the experiment"}[name]
}

func (f *fakeMLflow) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeMLflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/")
	f.mu.Lock()
	f.calls[call]++
	fault := f.fault
	f.mu.Unlock()
	if fault != nil && fault(w, r, call, false) {
		return
	}
	status, answer := f.answer(call, r)
	if fault != nil && fault(w, r, call, true) {
		return
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fakeMLflow) answer(call string, r *http.Request) (int, any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body struct {
		Name         string
		ExperimentID string `json:"experiment_id"`
		RunID        string `json:"run_id"`
		RunName      string `json:"run_name"`
		Status       string
		Key, Value   string
		Filter       string
		Tags, Params []struct{ Key, Value string }
		Metrics      []struct {
			Key             string
			Value           float64
			Timestamp, Step int64
		}
	}
	if r.Method == "POST" {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return 400, fields{"error_code": "BAD_REQUEST", "message": err.Error()}
		}
	} else {
		body.RunID, body.Name = r.URL.Query().Get("run_id"), r.URL.Query().Get("experiment_name")
	}
	unknown := func() (int, any) { return 404, fields{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "unknown"} }
	var run *fakeRun
	if i := slices.IndexFunc(f.runs, func(x *fakeRun) bool { return x.id == body.RunID }); i >= 0 {
		run = f.runs[i]
	} else if strings.HasPrefix(call, "runs/") && call != "runs/create" && call != "runs/search" {
		return unknown()
	}
	switch call {
	case "experiments/get-by-name":
		if f.experiments[body.Name] == "" {
			return unknown()
		}
		return 200, fields{"experiment": fields{"experiment_id": f.experiments[body.Name]}}
	case "experiments/create":
		f.experiments[body.Name] = fmt.Sprint(len(f.experiments) + 1)
		return 200, fields{"experiment_id": f.experiments[body.Name]}
	case "runs/create":
		run = &fakeRun{id: fmt.Sprint("run", len(f.runs)), experiment: body.ExperimentID, name: body.RunName,
			status: "RUNNING", tags: map[string]string{}, params: map[string]string{}}
		for _, x := range body.Tags {
			run.tags[x.Key] = x.Value
		}
		f.runs = append(f.runs, run)
		return 200, fields{"run": fields{"info": fields{"run_id": run.id}}}
	case "runs/search":
		for _, x := range f.runs {
			if body.Filter == fmt.Sprintf("tags.`popri.key` = '%s'", x.tags["popri.key"]) {
				return 200, fields{"runs": []fields{{"info": fields{"run_id": x.id}}}}
			}
		}
		return 200, fields{}
	case "runs/get":
		newest := map[string]int64{}
		for _, p := range run.figures {
			newest[p.Key] = max(newest[p.Key], p.Step)
		}
		var list []fields
		for key, step := range newest {
			list = append(list, fields{"key": key, "step": step})
		}
		return 200, fields{"run": fields{"info": fields{"run_id": run.id}, "data": fields{"metrics": list}}}
	case "runs/update":
		run.status = body.Status
	case "runs/set-tag":
		run.tags[body.Key] = body.Value
	case "runs/log-batch":
		if n := len(body.Metrics); n > 1000 || len(body.Params) > 100 || len(body.Tags) > 100 {
			return 400, fields{"error_code": "INVALID_PARAMETER_VALUE", "message": "too many"}
		}
		for _, x := range body.Params {
			if old, ok := run.params[x.Key]; ok && old != x.Value {
				return 400, fields{"error_code": "INVALID_PARAMETER_VALUE", "message": "changed"}
			}
			run.params[x.Key] = x.Value
		}
		for _, x := range body.Tags {
			run.tags[x.Key] = x.Value
		}
		for _, x := range body.Metrics {
			run.figures = append(run.figures, Point{x.Key, x.Step, time.UnixMilli(x.Timestamp), x.Value})
		}
	default:
		return 404, fields{"error_code": "ENDPOINT_NOT_FOUND", "message": call}
	}
	return 200, fields{}
}
