package experiment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"popri/configs"
)

// Axis is a key of the configuration and its values, as --set spells them. Keys that take the same values together are
// joined by "+".
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseAxis reads "dpo.rejected_rank=2,5,8,10". The values of a key that holds a list are separated by ";". A value may be a
// range of numbers: 2..10, or 0.1..0.5:0.1 with its step.
func ParseAxis(text string) (Axis, error) {
	key, values, ok := strings.Cut(text, "=")
	if !ok || key == "" || values == "" {
		return Axis{}, mistake("--over %s: want a key and its values, such as dpo.rejected_rank=2,5,8", text)
	}
	separator := ","
	keys := strings.Split(key, "+")
	for i, name := range keys {
		if name == "seed" {
			return Axis{}, mistake("--over %s: seeds are not a setting to compare; use --seeds", text)
		}
		if slices.Contains(keys[:i], name) {
			return Axis{}, mistake("--over %s: %s is there twice", text, name)
		}
		for _, k := range configs.Keys() {
			if k.Name == name && strings.HasPrefix(k.Type, "list") {
				separator = ";"
			}
		}
	}
	a := Axis{Key: key}
	for _, value := range strings.Split(values, separator) {
		numbers, err := rangeOf(value)
		if err != nil {
			return Axis{}, mistake("--over %s: %w", text, err)
		}
		a.Values = append(a.Values, numbers...)
	}
	for i, v := range a.Values {
		if slices.Contains(a.Values[:i], v) {
			return Axis{}, mistake("--over %s: the value %q is there twice", text, v)
		}
	}
	return a, nil
}

var rangePattern = regexp.MustCompile(`^(-?[0-9.]*[0-9](?:e-?[0-9]+)?)\.\.(-?[0-9]*\.?[0-9]+(?:e-?[0-9]+)?)(?::([0-9.]+(?:e-?[0-9]+)?))?$`)

// rangeOf returns the values of a range, or the value itself. Both ends are included.
func rangeOf(value string) ([]string, error) {
	parts := rangePattern.FindStringSubmatch(value)
	if parts == nil {
		return []string{value}, nil
	}
	var numbers [3]float64
	for i, text := range append(parts[1:3:3], cmp.Or(parts[3], "1")) {
		var err error
		if numbers[i], err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("the range %s: %q is no number", value, text)
		}
	}
	from, to, step := numbers[0], numbers[1], numbers[2]
	const most = 1000
	n := math.Floor((to-from)/step + 1e-9)
	if !(step > 0) || !(n >= 1) || n > most {
		return nil, fmt.Errorf("the range %s has no two values, or more than %d", value, most)
	}
	var list []string
	for i := range int(n) + 1 {
		// Rounding takes away what binary fractions add to 0.1 + 0.1 + 0.1.
		x := from + float64(i)*step
		list = append(list, strconv.FormatFloat(x, 'g', 12, 64))
	}
	return list, nil
}

// Change is what one row of an ablation sets: keys and values that are used together.
type Change struct {
	Keys   []string `json:"keys"`
	Values []string `json:"values"`
}

// ParseChange reads "dpo.loss=ipo dpo.beta=0.01": assignments with spaces between them. A value may hold spaces if no
// "key=" follows one of them.
func ParseChange(text string) (c Change, err error) {
	for _, word := range strings.Split(text, " ") {
		key, value, assigned := strings.Cut(word, "=")
		switch _, known := configs.Default().Get(key); {
		case assigned && known && slices.Contains(c.Keys, key):
			return c, mistake("--instead %s: %s is there twice", text, key)
		case assigned && known:
			c.Keys, c.Values = append(c.Keys, key), append(c.Values, value)
		case len(c.Keys) == 0:
			return c, mistake("--instead %s: %q is not a key and its value, such as dpo.beta=0.01", text, word)
		default:
			c.Values[len(c.Values)-1] += " " + word
		}
	}
	if slices.Contains(c.Keys, "seed") {
		return c, mistake("--instead %s: seeds are not a setting to compare; use --seeds", text)
	}
	return c, nil
}

func (c Change) String() string {
	var parts []string
	for i, k := range c.Keys {
		parts = append(parts, k+"="+c.Values[i])
	}
	return strings.Join(parts, ",")
}

// apply is the base with the change; base says that the change leaves it as it is.
func (c Change) apply(to configs.Config) (changed configs.Config, base bool, err error) {
	changed, base = to, true
	for i, keys := range c.Keys {
		for _, k := range strings.Split(keys, "+") {
			if err := changed.Set(k, c.Values[i]); err != nil {
				return changed, false, err
			}
			was, _ := to.Get(k)
			is, _ := changed.Get(k)
			base = base && fmt.Sprint(was) == fmt.Sprint(is)
		}
	}
	return changed, base, nil
}

// Varied is what an ablation varies: a grid of axes, or changes of which each row has one.
type Varied struct {
	Axes    []Axis   `json:"axes,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Seeds   int      `json:"seeds"`
}

// ParseVaried reads the values of --over, or those of --instead.
func ParseVaried(over, instead []string, seeds int) (v Varied, err error) {
	if len(over) > 0 && len(instead) > 0 {
		return v, mistake("--over and --instead: one ablation takes one of them")
	}
	v.Seeds = seeds
	for _, text := range over {
		axis, err := ParseAxis(text)
		if err != nil {
			return v, err
		}
		v.Axes = append(v.Axes, axis)
	}
	for _, text := range instead {
		c, err := ParseChange(text)
		if err != nil {
			return v, err
		}
		v.Changes = append(v.Changes, c)
	}
	return v, nil
}

// Cells are the runs, and the columns of the table that tell them apart.
func (v Varied) Cells(base configs.Config) ([]Axis, []Cell, error) {
	if len(v.Changes) > 0 {
		return OneAtATime(base, v.Changes, v.Seeds)
	}
	cells, err := Grid(base, v.Axes, v.Seeds)
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

// Grid lists the runs: every combination of the axes' values, with the base's seed and the seeds after it. All
// impossible values are reported in one [configs.Invalid].
func Grid(base configs.Config, axes []Axis, seeds int) ([]Cell, error) {
	if len(axes) == 0 {
		return nil, mistake("an ablation needs a key to vary (--over) or a setting to replace (--instead)")
	}
	for i, a := range axes {
		for _, key := range strings.Split(a.Key, "+") {
			if slices.ContainsFunc(axes[:i], func(b Axis) bool { return slices.Contains(strings.Split(b.Key, "+"), key) }) {
				return nil, mistake("--over names %s twice", key)
			}
		}
	}
	combinations := []Change{{}}
	for _, a := range axes {
		var longer []Change
		for _, c := range combinations {
			for _, v := range a.Values {
				longer = append(longer, Change{append(slices.Clone(c.Keys), a.Key), append(slices.Clone(c.Values), v)})
			}
		}
		combinations = longer
	}
	return cells(base, "--over", combinations, seeds, func(c Change) []string { return c.Values })
}

// configured is the name of the row without a change.
const configured = "configured"

// OneAtATime lists the runs of the base and of each change to it alone, with the base's seed and the seeds after it.
// The axis's values are the changes.
func OneAtATime(base configs.Config, changes []Change, seeds int) ([]Axis, []Cell, error) {
	axis := Axis{Key: "changed", Values: []string{configured}}
	for _, c := range changes {
		if slices.Contains(axis.Values, c.String()) {
			return nil, nil, mistake("--instead %s is there twice", c)
		}
		axis.Values = append(axis.Values, c.String())
	}
	found, err := cells(base, "--instead", append([]Change{{}}, changes...), seeds, func(c Change) []string {
		return []string{cmp.Or(c.String(), configured)}
	})
	return []Axis{axis}, found, err
}

// cells are the runs of the changes, the seeds of each side by side; flag names where the values come from.
func cells(base configs.Config, flag string, changes []Change, seeds int, values func(Change) []string) ([]Cell, error) {
	if seeds < 1 {
		return nil, mistake("--seeds is %d, want 1 or more", seeds)
	}
	var cells []Cell
	var problems []configs.Problem
	collect := func(where string, err error) bool {
		var invalid *configs.Invalid
		if errors.As(err, &invalid) {
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
