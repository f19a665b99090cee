package reporting

import (
	"cmp"
	"path/filepath"

	"popri/configs"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/rounds"
)

// Cost is what a run's training costs a client and the server, without the synthetic set and evaluations (POPri, Table 2).
type Cost struct {
	Name     string `json:"name"`
	Rounds   int    `json:"rounds"`
	Sent     int64  `json:"sent_bytes"` // by a client that is asked every time, in all rounds
	Received int64  `json:"received_bytes"`
	// Client is the seconds that a client takes to compare, over all rounds: the simulation's seconds divided by the
	// clients that were asked.
	Client float64 `json:"client_seconds"`
	Server float64 `json:"server_seconds"`
}

// CostOf reads what the run in dir cost.
func CostOf(dir string) (Cost, error) {
	c, err := configs.Load(configs.LoadOptions{File: filepath.Join(dir, rundir.Config)})
	if err != nil {
		return Cost{}, err
	}
	d := methods.Of(*c)
	cost := Cost{Name: filepath.Base(dir), Rounds: d.Rounds(*c)}
	cost.Sent, cost.Received = d.Traffic(*c).Bytes()
	stages, took, failed := timesOf(dir, "")
	metrics, err := rounds.ReadMetrics(dir)
	if err = cmp.Or(failed, err); err != nil {
		return cost, err
	}
	for _, seconds := range took {
		cost.Server += seconds
	}
	asked := 0.0
	for _, m := range metrics {
		asked = max(asked, m.Values["clients"])
	}
	for _, s := range stages {
		if s.Name == private && asked > 0 {
			cost.Server -= s.Seconds
			cost.Client = s.Seconds / asked
		}
	}
	return cost, nil
}
