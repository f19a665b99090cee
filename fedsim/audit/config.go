package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/internal/rundir"
	"popri/scoring"
)

// configuration compares the run's configuration with its ledger and with the headers of its releases.
func (r *Report) configuration() {
	path := filepath.Join(r.Dir, rundir.Config)
	c, err := configs.Load(configs.LoadOptions{File: path})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is missing: the releases cannot be compared with it", path)
	}
	if err != nil {
		r.problem("%v", err)
		r.unreleased = nil // nothing says how often clients were to be asked
		return
	}
	b := r.Record.Budget
	for _, v := range []struct {
		key          string
		says, ledger any
	}{
		{"privacy.epsilon", c.Privacy.Epsilon, b.Epsilon},
		{"privacy.delta", c.Privacy.Delta, b.Delta},
		{"privacy.group", max(1, c.Privacy.Group), max(1, b.Group)},
		{"privacy.insecure_seeded_noise", c.Privacy.InsecureSeededNoise, b.InsecureSeededNoise},
	} {
		if v.says != v.ledger {
			r.problem("%s says %s = %v, the ledger %v.", path, v.key, v.says, v.ledger)
		}
	}
	for _, v := range headerValues(c, b) {
		r.compareHeaders(path, v, r.found)
	}
	if r.options.Expect == nil {
		return
	}
	e := r.options.Expect(*c)
	isFirst := func(f foundRelease) bool { return f.release.Round == 1 }
	later := r.found
	if e.First != nil {
		later = slices.DeleteFunc(slices.Clone(r.found), isFirst)
		r.compareQuestion(path, *e.First, slices.DeleteFunc(slices.Clone(r.found), func(f foundRelease) bool { return !isFirst(f) }))
	}
	r.compareQuestion(path, e, later)
	if e.Once && slices.ContainsFunc(r.found, isFirst) {
		r.unreleased = nil
	}
	if e.None {
		r.unreleased = nil
		if n := len(r.found); n > 0 {
			r.problem("%s says that no client is asked, and there are %d releases.", path, n)
		}
	}
}

// compareQuestion compares releases with the question that they answer.
func (r *Report) compareQuestion(path string, e Expected, found []foundRelease) {
	r.compareHeaders(path, headerValue{"query", e.Query, func(f foundRelease) any {
		if scoring.CheckedName(f.release.Query, scoring.RoundChecks) == e.Query { // of a version whose rounds had no check values
			return e.Query
		}
		return f.release.Query
	}}, found)
	r.compareHeaders(path, headerValue{"norm bound", e.Bound, func(f foundRelease) any { return f.release.Bound }}, found)
}

// headerValue is a value of the configuration that every release's header states too.
type headerValue struct {
	key  string
	says any
	of   func(f foundRelease) any
}

func headerValues(c *configs.Config, b ledger.Budget) []headerValue {
	cohort := c.Fed.ClientsPerRound
	if cohort == 0 || ledger.Sampling(c.Fed.Sampling) == ledger.Full {
		cohort = b.Clients
	}
	values := []headerValue{
		{"fed.sampling", c.Fed.Sampling, func(f foundRelease) any { return string(f.release.Sampling) }},
		{"fed.clients_per_round", cohort, func(f foundRelease) any { return f.release.Cohort }},
		{"privacy.insecure_seeded_noise", c.Privacy.InsecureSeededNoise,
			func(f foundRelease) any { return f.release.Seeded }},
	}
	if c.Privacy.NoiseMultiplier > 0 {
		values = append(values, headerValue{"privacy.noise_multiplier", c.Privacy.NoiseMultiplier,
			func(f foundRelease) any { return f.release.Planned }})
	}
	return values
}

// compareHeaders names the first release that has another value, and how many there are.
func (r *Report) compareHeaders(path string, v headerValue, found []foundRelease) {
	first, others := "", 0
	for _, f := range found {
		has := v.of(f)
		switch {
		case has == v.says:
		case first == "":
			first = fmt.Sprintf("%s was made with %v", f.name, has)
		default:
			others++
		}
	}
	if first != "" {
		if others > 0 {
			first += fmt.Sprintf(" (and %d more do not fit)", others)
		}
		r.problem("%s says %s = %v; %s.", path, v.key, v.says, first)
	}
}
