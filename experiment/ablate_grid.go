package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"popri/configs"
)

// Axis is a key of the configuration and its values, as --set spells them.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseAxis reads "dpo.rejected_rank=2,5,8,10". The values of a key that holds a list are separated by ";".
func ParseAxis(text string) (Axis, error) {
	key, values, ok := strings.Cut(text, "=")
	if !ok || key == "" || values == "" {
		return Axis{}, mistake("--over %s: want a key and its values, such as dpo.rejected_rank=2,5,8", text)
	}
	if key == "seed" {
		return Axis{}, mistake("--over %s: seeds are not a setting to compare; use --seeds", text)
	}
	separator := ","
	for _, k := range configs.Keys() {
		if k.Name == key && strings.HasPrefix(k.Type, "list") {
			separator = ";"
		}
	}
	a := Axis{Key: key, Values: strings.Split(values, separator)}
	for i, v := range a.Values {
		if slices.Contains(a.Values[:i], v) {
			return Axis{}, mistake("--over %s: the value %q is there twice", text, v)
		}
	}
	return a, nil
}

// Cell is one run of an ablation.
type Cell struct {
	Values []string // one of each axis
	Seed   uint64
	Name   string // of its folder
	Config configs.Config
}

// Grid lists the runs: every combination of the axes' values, with the base's seed and the seeds after it. All
// impossible values are reported in one [configs.Invalid].
func Grid(base configs.Config, axes []Axis, seeds int) ([]Cell, error) {
	if len(axes) == 0 {
		return nil, mistake("an ablation needs a key to vary (--over)")
	}
	for i, a := range axes {
		if slices.ContainsFunc(axes[:i], func(b Axis) bool { return b.Key == a.Key }) {
			return nil, mistake("--over names %s twice", a.Key)
		}
	}
	if seeds < 1 {
		return nil, mistake("--seeds is %d, want 1 or more", seeds)
	}
	combinations := [][]string{nil}
	for _, a := range axes {
		var longer [][]string
		for _, c := range combinations {
			for _, v := range a.Values {
				longer = append(longer, append(slices.Clone(c), v))
			}
		}
		combinations = longer
	}
	var cells []Cell
	var problems []configs.Problem
	collect := func(where string, err error) {
		var invalid *configs.Invalid
		if errors.As(err, &invalid) {
			for _, p := range invalid.Problems {
				p.Where = where
				if !slices.Contains(problems, p) {
					problems = append(problems, p)
				}
			}
		}
	}
	for _, values := range combinations {
		for i := range seeds {
			c := base
			c.Seed += uint64(i)
			c.Provenance = nil
			var parts []string
			failed := false
			for k, a := range axes {
				if err := c.Set(a.Key, values[k]); err != nil {
					collect("--over", err)
					failed = true
				}
				parts = append(parts, a.Key+"="+values[k])
			}
			label := strings.Join(parts, ",")
			if !failed {
				collect("--over "+label, c.Validate())
			}
			cells = append(cells, Cell{Values: values, Seed: c.Seed,
				Name: folder(fmt.Sprintf("%s,seed=%d", label, c.Seed)), Config: c})
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
