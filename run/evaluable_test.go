package run

import (
	"path/filepath"
	"strings"
	"testing"

	"popri/configs"
	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/internal/rundir"
	"popri/testkit/testworld"
)

// TestEvaluationIsCheckedFirst: a run that could not be evaluated is refused before it has a folder, if it is meant to be
// evaluated, and otherwise it begins with a warning.
func TestEvaluationIsCheckedFirst(t *testing.T) {
	w := testworld.Shared(t)
	all, err := clients.Read(w.Config.Data.Private)
	if err != nil {
		t.Fatal(err)
	}
	without := func(split clients.Split) string {
		p := *all
		p.Clients = nil
		for _, c := range all.Clients {
			if c.Split != split {
				p.Clients = append(p.Clients, c)
			}
		}
		file := filepath.Join(t.TempDir(), "clients.parquet")
		if err := clients.Write(file, &p); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for want, change := range map[string]func(*configs.Config){
		"no validation clients":                       func(c *configs.Config) { c.Data.Private = without(clients.Validation) },
		"no test clients":                             func(c *configs.Config) { c.Data.Private = without(clients.Test) },
		"downstream.length is 10000, must be at most": func(c *configs.Config) { c.Downstream.Length = 10000 },
	} {
		c, dir, warned := w.Config, filepath.Join(t.TempDir(), "run"), ""
		c.Trainer.Rounds = 1
		change(&c)
		o := Options{Config: c, Dir: dir, Evaluates: true, Warn: func(text string) { warned += text }}
		if s, err := Open(t.Context(), o); !fault.IsUser(err) || !strings.Contains(err.Error(), want) || rundir.Exists(dir) {
			t.Errorf("%s: %v, %v", want, err, s)
		}
		o.Evaluates = false
		s, err := Open(t.Context(), o)
		if err != nil || !strings.Contains(warned, want) {
			t.Errorf("%s, not evaluated: %v, warned of %q", want, err, warned)
			continue
		}
		s.Close()
	}
}
