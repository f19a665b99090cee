package tracking

import (
	"fmt"
	"os"
	"path/filepath"

	"popri/configs"
	"popri/show/trackers"
)

// describe is what a configuration says about the run in dir.
func describe(dir string, c configs.Config) trackers.Run {
	name := filepath.Base(dir)
	if absolute, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(absolute)
	}
	run := trackers.Run{Dir: dir, Name: name, YAML: c.YAML(), Getenv: os.Getenv}
	for _, k := range configs.Keys() {
		v, _ := c.Get(k.Name)
		run.Params = append(run.Params, trackers.Pair{Name: k.Name, Value: fmt.Sprint(v)})
	}
	for _, name := range []string{"program", "libtorch", "compute", "device", "clients", "noise_multiplier"} {
		if v := c.Provenance[name]; v != "" {
			run.Tags = append(run.Tags, trackers.Pair{Name: name, Value: v})
		}
	}
	return run
}
