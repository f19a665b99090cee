package lora

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/quote"
	"popri/model/lm"
)

// Pattern gives a value to projections whose name ends, after a dot, in Key. Key is a regular expression.
type Pattern struct {
	Key   string
	Value float64
}

// Patterns are tried in their order; the first match counts. In JSON they are an object, as in PEFT.
type Patterns []Pattern

// UnmarshalJSON keeps the order of the object's keys.
func (p *Patterns) UnmarshalJSON(b []byte) error {
	*p = nil
	if string(b) == "null" {
		return nil
	}
	if b[0] != '{' {
		return fmt.Errorf("%s is no object of patterns", b)
	}
	return exactjson.Members(b, func(key string, raw json.RawMessage) error {
		var value float64
		err := json.Unmarshal(raw, &value)
		*p = append(*p, Pattern{key, value})
		return err
	})
}

// MarshalJSON writes the object in order.
func (p Patterns) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, x := range p {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(x.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(x.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// compiled is a pattern with its regular expression as PEFT builds it.
type compiled struct {
	re    *regexp.Regexp
	value float64
}

func (p Patterns) compile() ([]compiled, error) {
	var list []compiled
	for _, x := range p {
		re, err := regexp.Compile(`^(?:.*\.)?(?:` + x.Key + `)$`)
		if err != nil {
			return nil, quote.Errorf("the pattern %q is not a regular expression: %w", x.Key, err)
		}
		list = append(list, compiled{re, x.Value})
	}
	return list, nil
}

func lookup(list []compiled, name string, or float64) float64 {
	for _, p := range list {
		if p.re.MatchString(name) {
			return p.value
		}
	}
	return or
}

// check compiles the patterns and refuses an invalid rank or scale.
func (c *Config) check() error {
	if c.Rank < 1 {
		return fmt.Errorf("rank %d", c.Rank)
	}
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	if !positive(c.Alpha) {
		return fmt.Errorf("alpha %g", c.Alpha)
	}
	var err error
	if c.ranks, err = c.RankPattern.compile(); err != nil {
		return fmt.Errorf("rank_pattern: %w", err)
	}
	if c.alphas, err = c.AlphaPattern.compile(); err != nil {
		return fmt.Errorf("alpha_pattern: %w", err)
	}
	for _, p := range c.RankPattern {
		if p.Value < 1 || p.Value != math.Trunc(p.Value) || p.Value > 1<<20 {
			return fmt.Errorf("rank_pattern: %s: %g is no rank", p.Key, p.Value)
		}
	}
	for _, p := range c.AlphaPattern {
		if !positive(p.Value) {
			return fmt.Errorf("alpha_pattern: %s: %g is no alpha", p.Key, p.Value)
		}
	}
	return nil
}

// AllLinear is the target that names all projections.
const AllLinear = "all-linear"

// Targets reports whether a target module names the projection: its name or the end of it, or all of them by
// [AllLinear].
func Targets(target, projection string) bool {
	return target == AllLinear || projection == target || strings.HasSuffix(projection, "."+target)
}

// match returns the names of the projections that the configuration targets. A target that matches none is an error.
func (c Config) match(m *lm.Model) ([]string, error) {
	var names []string
	all := slices.Sorted(maps.Keys(m.Linears()))
	used := map[string]bool{}
	for _, name := range all {
		if c.targets != nil {
			if c.targets.MatchString(name) {
				names = append(names, name)
			}
			continue
		}
		hit := len(c.Targets) == 0
		for _, t := range c.Targets {
			if Targets(t, name) {
				used[t], hit = true, true
			}
		}
		if hit {
			names = append(names, name)
		}
	}
	for _, t := range c.Targets {
		if c.targets == nil && !used[t] {
			return nil, quote.Errorf("lora: target module %q names no projection of the model; it has %s, …", t,
				strings.Join(all[:min(4, len(all))], ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("lora: no projection of the model is targeted; it has %s, …",
			strings.Join(all[:min(4, len(all))], ", "))
	}
	return names, nil
}
