package trackers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"popri/internal/atomicfile"
	"popri/internal/numeric"
	"popri/internal/rundir"
)

// mlflowSession is a run on an MLflow server (REST API 2.0).
type mlflowSession struct {
	server *mlflowServer
	run    Run
	path   string // of the state
	state  mlflowState
}

// mlflowState is mlflow.json in the run's folder.
type mlflowState struct {
	Server string `json:"server"` // without credentials
	// Key is a random name in a tag of the run. A process that was killed before it got the server's answer finds its
	// run by it.
	Key   string `json:"key"`
	RunID string `json:"run_id,omitempty"`
}

const (
	keyTag            = "popri.key"
	defaultExperiment = "popri"
)

func checkMLflow(getenv func(string) string) error {
	_, err := mlflowURL(getenv)
	if err == nil {
		_, err = mlflowTimeout(getenv)
	}
	return err
}

// mlflowURL reads the server's address, which MLflow itself takes from the same variable.
func mlflowURL(getenv func(string) string) (*url.URL, error) {
	return serverURL(getenv, "MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
}

// serverURL reads the address of a server from a variable. Errors do not quote a password in it.
func serverURL(getenv func(string) string, variable, example string) (*url.URL, error) {
	u, err := url.Parse(getenv(variable))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is no URL, must be the URL of a server, such as %s", variable, example)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%s is %q, must be the URL of a server, such as %s", variable, u.Redacted(), example)
	}
	return u, nil
}

func newMLflowSession(run Run, timeout time.Duration) (*mlflowSession, error) {
	u, err := mlflowURL(run.Getenv)
	if err != nil {
		return nil, err
	}
	s := &mlflowSession{run: run, path: filepath.Join(run.Dir, rundir.MLflow),
		server: &mlflowServer{url: u, token: run.Getenv("MLFLOW_TRACKING_TOKEN"), client: http.Client{Timeout: timeout},
			user: run.Getenv("MLFLOW_TRACKING_USERNAME"), secret: run.Getenv("MLFLOW_TRACKING_PASSWORD")}}
	if _, err := atomicfile.ReadJSONIfAny(s.path, &s.state); err != nil {
		return nil, err
	}
	if name := s.server.name(); s.state.Server != name { // runs of another server are unknown here
		s.state = mlflowState{Server: name}
	}
	return s, nil
}

func (s *mlflowSession) save() error { return atomicfile.WriteJSON(s.path, s.state) }

// runOnServer is what the server says about a run.
type runOnServer struct {
	Info struct {
		RunID string `json:"run_id"`
	} `json:"info"`
	Data struct {
		Metrics []struct {
			Key  string `json:"key"`
			Step int64  `json:"step"`
		} `json:"metrics"`
	} `json:"data"`
}

// newest has the newest step of each key.
func (r runOnServer) newest() map[string]int64 {
	steps := map[string]int64{}
	for _, m := range r.Data.Metrics {
		steps[m.Key] = m.Step
	}
	return steps
}

// begin finds the run on the server or makes it, and returns the newest step of each figure that the server has.
func (s *mlflowSession) begin(ctx context.Context) (map[string]int64, error) {
	if s.state.RunID != "" {
		found, err := s.get(ctx)
		if !isUnknown(err) {
			return found.newest(), err
		}
		s.state.Key, s.state.RunID = "", "" // the server has lost it
	}
	experiment, err := s.experiment(ctx)
	if err != nil {
		return nil, err
	}
	id := ""
	if s.state.Key != "" {
		if id, err = s.search(ctx, experiment); err != nil {
			return nil, err
		}
	} else {
		s.state.Key = rand.Text()
		if err := s.save(); err != nil {
			return nil, err
		}
	}
	if id == "" {
		if id, err = s.create(ctx, experiment); err != nil {
			return nil, err
		}
	}
	s.state.RunID = id
	if err := s.describe(ctx); err != nil {
		s.state.RunID = "" // so that it is described when it is found again
		return nil, err
	}
	if err := s.save(); err != nil {
		return nil, err
	}
	found, err := s.get(ctx)
	return found.newest(), err
}

// get asks for the run and says that it is under way.
func (s *mlflowSession) get(ctx context.Context) (found runOnServer, err error) {
	if err := s.server.call(ctx, "POST", "runs/update", fields{"run_id": s.state.RunID, "status": "RUNNING"},
		nil); err != nil {
		return found, err
	}
	var answer struct {
		Run runOnServer `json:"run"`
	}
	err = s.server.call(ctx, "GET", "runs/get?run_id="+url.QueryEscape(s.state.RunID), nil, &answer)
	return answer.Run, err
}

// experiment returns the id of the experiment that the environment names, and makes it if need be.
func (s *mlflowSession) experiment(ctx context.Context) (string, error) {
	if id := s.run.Getenv("MLFLOW_EXPERIMENT_ID"); id != "" {
		return id, nil
	}
	name := cmp.Or(s.run.Getenv("MLFLOW_EXPERIMENT_NAME"), defaultExperiment)
	byName := func() (string, error) {
		var answer struct {
			Experiment struct {
				ID string `json:"experiment_id"`
			} `json:"experiment"`
		}
		err := s.server.call(ctx, "GET", "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil, &answer)
		return answer.Experiment.ID, err
	}
	id, err := byName()
	if !isUnknown(err) {
		return id, err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	if err := s.server.call(ctx, "POST", "experiments/create", fields{"name": name}, &made); err != nil {
		if r, ok := errors.AsType[*refusal](err); ok && r.Code == "RESOURCE_ALREADY_EXISTS" { // another run was faster
			return byName()
		}
		return "", err
	}
	return made.ID, nil
}

// search returns the id of the run with the key, or "".
func (s *mlflowSession) search(ctx context.Context, experiment string) (string, error) {
	var answer struct {
		Runs []runOnServer `json:"runs"`
	}
	err := s.server.call(ctx, "POST", "runs/search", fields{"experiment_ids": []string{experiment}, "max_results": 1,
		"filter": fmt.Sprintf("tags.`%s` = '%s'", keyTag, s.state.Key)}, &answer)
	if err != nil || len(answer.Runs) == 0 {
		return "", err
	}
	return answer.Runs[0].Info.RunID, nil
}

func (s *mlflowSession) create(ctx context.Context, experiment string) (string, error) {
	var answer struct {
		Run runOnServer `json:"run"`
	}
	err := s.server.call(ctx, "POST", "runs/create", fields{"experiment_id": experiment, "run_name": s.run.Name,
		"start_time": time.Now().UnixMilli(),
		"tags":       []fields{{"key": keyTag, "value": s.state.Key}, {"key": "mlflow.source.name", "value": "popri"}}},
		&answer)
	if err == nil && answer.Run.Info.RunID == "" {
		err = errors.New("runs/create: the answer names no run")
	}
	return answer.Run.Info.RunID, err
}

// describe sends the parameters and tags, 100 at a time, which is the most that the server takes.
func (s *mlflowSession) describe(ctx context.Context) error {
	for _, x := range []struct {
		kind, prefix string
		pairs        []Pair
	}{{"params", "", s.run.Params}, {"tags", "popri.", s.run.Tags}} {
		for pairs := range slices.Chunk(x.pairs, 100) {
			list := numeric.Map(pairs, func(p Pair) fields {
				return fields{"key": x.prefix + p.Name, "value": shortened(p.Value)}
			})
			if err := s.server.call(ctx, "POST", "runs/log-batch", fields{"run_id": s.state.RunID, x.kind: list},
				nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// shortened cuts a value to 500 bytes, which every version of the server takes.
func shortened(value string) string {
	const most = 500
	if len(value) <= most {
		return value
	}
	value = value[:most-len("…")]
	for !utf8.ValidString(value) {
		value = value[:len(value)-1]
	}
	return value + "…"
}

// metricName is a key with the characters that MLflow allows.
func metricName(key string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-. :/", r)) {
			return r
		}
		return '_'
	}, key)
}

// log sends points.
func (s *mlflowSession) log(ctx context.Context, points []Point) error {
	list := numeric.Map(points, func(p Point) fields {
		return fields{"key": metricName(p.Key), "value": p.Value, "timestamp": p.Time.UnixMilli(), "step": p.Step}
	})
	return s.server.call(ctx, "POST", "runs/log-batch", fields{"run_id": s.state.RunID, "metrics": list}, nil)
}

// end says how the process ended.
func (s *mlflowSession) end(ctx context.Context, end End) error {
	if end.Guarantee != "" {
		if err := s.server.call(ctx, "POST", "runs/set-tag", fields{"run_id": s.state.RunID, "key": "popri.guarantee",
			"value": shortened(end.Guarantee)}, nil); err != nil {
			return err
		}
	}
	return s.server.call(ctx, "POST", "runs/update", fields{"run_id": s.state.RunID, "status": string(end.Status),
		"end_time": time.Now().UnixMilli()}, nil)
}
