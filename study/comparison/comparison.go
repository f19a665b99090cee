// Package comparison lists the methods that popri compare-methods compares, with the settings of each: methods.yaml.
// All ask the same clients under the same ε, and those that write text write as many rows. It runs nothing.
package comparison

import (
	_ "embed"
	"slices"
	"strings"

	"popri/internal/quote"
	"popri/study/grid"
)

//go:embed methods.yaml
var file []byte

// Base is what all methods have in common at a scale.
type Base struct {
	Preset string
	Set    []string
}

// Method is a row: a method with its settings, at both scales or at one. Without settings it is the base as it is.
type Method struct {
	Name        string
	Labels      bool // the method needs texts with labels
	Set         []string
	Demo, Small []string
}

// Scales are the embedded generator, and a language model.
const (
	Demo  = "demo"
	Small = "small"
)

type list struct {
	Bases   struct{ Demo, Small Base }
	Methods []Method
}

var read = grid.Embedded[list]("methods.yaml", file)

// Names are those of all methods.
func Names() (names []string) {
	for _, m := range read().Methods {
		names = append(names, m.Name)
	}
	return names
}

// BaseOf is what the methods have in common at a scale.
func BaseOf(scale string) Base {
	if scale == Small {
		return read().Bases.Small
	}
	return read().Bases.Demo
}

// Rows are the methods of the names as rows of a grid at a scale; for no name, all that texts with or without labels
// allow.
func Rows(scale string, names []string, labels bool) (rows []grid.Row, err error) {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, quote.Errorf("%q is no method that is compared; there are %s", name,
				strings.Join(Names(), ", "))
		}
	}
	for _, m := range read().Methods {
		if len(names) > 0 && !slices.Contains(names, m.Name) || len(names) == 0 && m.Labels && !labels {
			continue
		}
		more := m.Demo
		if scale == Small {
			more = m.Small
		}
		rows = append(rows, grid.Row{Name: m.Name, Set: slices.Concat(m.Set, more)})
	}
	return rows, nil
}
