// Package grid lists the runs of a study: every combination of the values of some keys, or a base configuration with
// one change at a time, each with several seeds. It also reads these from the command line.
package grid

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/numeric"
)

// Varied is what an ablation varies: a grid of axes, or changes of which each row has one.
type Varied struct {
	Axes    []Axis   `json:"axes,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Seeds   int      `json:"seeds"`
}

// mostSeeds bounds the runs of a setting, which are listed before the first one starts.
const mostSeeds = 1000

// Parse reads the values of --over, or of --instead.
func Parse(over, instead []string, seeds int) (v Varied, err error) {
	if len(over) > 0 && len(instead) > 0 {
		return v, fault.Userf("--over and --instead: one ablation takes one of them")
	}
	if v.Seeds = seeds; seeds > mostSeeds {
		return v, fault.Userf("--seeds is %d, must be at most %d", seeds, mostSeeds)
	}
	switch {
	case len(over) > 0:
		v.Axes, err = numeric.TryMap(over, parseAxis)
	case len(instead) > 0:
		v.Changes, err = numeric.TryMap(instead, parseChange)
	}
	return v, err
}

// Cells are the runs, and the columns of the table that tell them apart.
func (v Varied) Cells(base configs.Config) ([]Axis, []Cell, error) {
	if len(v.Changes) > 0 {
		return OneAtATime(base, v.Changes, v.Seeds)
	}
	cells, err := All(base, v.Axes, v.Seeds)
	return v.Axes, cells, err
}

// Cell is one run of an ablation.
type Cell struct {
	Values []string // one of each axis
	Base   bool     // the settings are the configured ones
	Seed   uint64
	Name   string // of its folder
	Config configs.Config
}

// All lists the runs: every combination of the axes' values, with the base's seed and the seeds after it. All
// impossible values are reported in one [configs.Invalid].
func All(base configs.Config, axes []Axis, seeds int) ([]Cell, error) {
	if len(axes) == 0 {
		return nil, fault.Userf("an ablation needs a key to vary (--over) or a setting to replace (--instead)")
	}
	for i, a := range axes {
		for _, key := range strings.Split(a.Key, "+") {
			if slices.ContainsFunc(axes[:i],
				func(b Axis) bool { return slices.Contains(strings.Split(b.Key, "+"), key) }) {
				return nil, fault.Userf("--over names %s twice", key)
			}
		}
	}
	combinations := []Change{{}}
	for _, a := range axes {
		var longer []Change
		for _, c := range combinations {
			for _, v := range a.Values {
				longer = append(longer, Change{Keys: append(slices.Clone(c.Keys), a.Key),
					Values: append(slices.Clone(c.Values), v)})
			}
		}
		combinations = longer
	}
	return cells(base, "--over", combinations, seeds, func(c Change) []string { return c.Values })
}

const (
	changed    = "changed"    // the axis of rows that each change something else
	configured = "configured" // the name of the row without a change
)

// OneAtATime lists the runs of the base and of each change to it alone, with the base's seed and the seeds after it.
// The axis's values are the changes.
func OneAtATime(base configs.Config, changes []Change, seeds int) ([]Axis, []Cell, error) {
	axis := Axis{Key: changed, Values: []string{configured}}
	for _, c := range changes {
		if slices.Contains(axis.Values, c.String()) {
			return nil, nil, fault.Userf("--instead %s is there twice", c)
		}
		axis.Values = append(axis.Values, c.String())
	}
	found, err := cells(base, "--instead", append([]Change{{}}, changes...), seeds, func(c Change) []string {
		return []string{cmp.Or(c.String(), configured)}
	})
	return []Axis{axis}, found, err
}

// cells are the runs of the changes, the seeds of each side by side; flag names where the values come from.
func cells(base configs.Config, flag string, changes []Change, seeds int, values func(Change) []string) ([]Cell,
	error) {
	if seeds < 1 {
		return nil, fault.Userf("--seeds is %d, want 1 or more", seeds)
	}
	var cells []Cell
	var problems []configs.Problem
	collect := func(where string, err error) bool {
		if invalid, ok := errors.AsType[*configs.Invalid](err); ok {
			for _, p := range invalid.Problems {
				p.Where = where
				if !slices.Contains(problems, p) {
					problems = append(problems, p)
				}
			}
		}
		return err == nil
	}
	for _, change := range changes {
		label := change.String()
		for i := range seeds {
			c := base
			c.Seed += uint64(i)
			c.Provenance = nil
			c, same, err := change.apply(c)
			if collect(flag, err) {
				collect(strings.TrimSpace(flag+" "+label), c.Validate())
			}
			cells = append(cells, Cell{Values: values(change), Base: same, Seed: c.Seed,
				Name: folder(fmt.Sprintf("%s,seed=%d", cmp.Or(label, configured), c.Seed)), Config: c})
		}
	}
	if len(problems) > 0 {
		return nil, &configs.Invalid{Problems: problems}
	}
	return cells, nil
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9._=,+-]`)

// folder makes a name that any file system accepts. A name that had to be changed or cut gets its hash, so that names
// stay different.
func folder(label string) string {
	name := unfit.ReplaceAllString(label, "_")
	if name == label && len(name) <= 200 {
		return name
	}
	h := sha256.Sum256([]byte(label))
	return name[:min(len(name), 180)] + "-" + hex.EncodeToString(h[:4])
}

// Differs returns the first key, "" for none, whose value in found is not the cell's. Threads change no result, and an
// encoder with weights of its own has its own length, which a begun run has in its configuration.
func (c Cell) Differs(found configs.Config) (key string, have, want any) {
	fitted := slices.Contains(configs.Encoders, c.Config.Scoring.Encoder)
	for _, k := range configs.Keys() {
		have, _ = found.Get(k.Name)
		want, _ = c.Config.Get(k.Name)
		idle := k.Name == "model.threads" || k.Name == "scoring.dim" && !fitted
		if !idle && fmt.Sprint(have) != fmt.Sprint(want) {
			return k.Name, have, want
		}
	}
	return "", nil, nil
}

// Row is a named set of assignments, such as "trainer.rounds=20".
type Row struct {
	Name string
	Set  []string
}

// Named lists the runs of each row with each value of an axis, with the base's seed and the seeds after it. Rows are
// the values of the first column, which has the given head.
func Named(base configs.Config, head string, rows []Row, over Axis, seeds int) ([]Axis, []Cell, error) {
	first := Axis{Key: head}
	var changes []Change
	values := map[string][]string{}
	for _, r := range rows {
		if slices.Contains(first.Values, r.Name) {
			return nil, nil, fault.Userf("%s %s is there twice", head, r.Name)
		}
		first.Values = append(first.Values, r.Name)
		for _, v := range over.Values {
			c := Change{Name: r.Name + "," + over.Key + "=" + v}
			for _, text := range append(slices.Clone(r.Set), over.Key+"="+v) {
				key, value, _ := strings.Cut(text, "=")
				c.Keys, c.Values = append(c.Keys, key), append(c.Values, value)
			}
			changes, values[c.Name] = append(changes, c), []string{r.Name, v}
		}
	}
	found, err := cells(base, "the row", changes, seeds, func(c Change) []string { return values[c.Name] })
	return []Axis{first, over}, found, err
}
