package lora

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"popri/lm"
)

// patterns hold PEFT's per-module ranks and alphas.
type patterns struct {
	rank, alpha patternList
	targets     *regexp.Regexp // where target_modules is a string: it must match the whole name
}

type pattern struct {
	key   string
	re    *regexp.Regexp
	value float64
}

type patternList []pattern

// newPatterns compiles keys as PEFT does: a key matches the end of a module's name after a dot, or as a regular
// expression there.
func newPatterns(values map[string]float64) (patternList, error) {
	var list patternList
	for key, v := range values {
		re, err := regexp.Compile(`^(?:(?:.*\.)?(?:` + key + `))$`)
		if err != nil {
			return nil, fmt.Errorf("the pattern %q is not a regular expression: %w", key, err)
		}
		list = append(list, pattern{key, re, v})
	}
	// A map has no order: longer keys are the more particular ones.
	slices.SortFunc(list, func(a, b pattern) int {
		if d := len(b.key) - len(a.key); d != 0 {
			return d
		}
		return strings.Compare(a.key, b.key)
	})
	return list, nil
}

func (l patternList) lookup(name string) (float64, bool) {
	for _, p := range l {
		if p.re.MatchString(name) {
			return p.value, true
		}
	}
	return 0, false
}

func (l patternList) values() map[string]float64 {
	m := map[string]float64{}
	for _, p := range l {
		m[p.key] = p.value
	}
	return m
}

// match returns the names of the projections that the configuration targets. A target that names none is an error.
func (c Config) match(m *lm.Model) ([]string, error) {
	var names, all []string
	for name := range m.Linears() {
		all = append(all, name)
	}
	slices.Sort(all)
	used := map[string]bool{}
	for _, name := range all {
		if c.patterns.targets != nil {
			if c.patterns.targets.MatchString(name) {
				names = append(names, name)
			}
			continue
		}
		hit := len(c.Targets) == 0
		for _, t := range c.Targets {
			if t == "all-linear" || name == t || strings.HasSuffix(name, "."+t) {
				used[t], hit = true, true
			}
		}
		if hit {
			names = append(names, name)
		}
	}
	for _, t := range c.Targets {
		if c.patterns.targets == nil && !used[t] {
			return nil, fmt.Errorf("lora: target module %q names no projection of the model; it has %s, …", t, strings.Join(all[:min(4, len(all))], ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("lora: no projection of the model is targeted; it has %s, …", strings.Join(all[:min(4, len(all))], ", "))
	}
	return names, nil
}
