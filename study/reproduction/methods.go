package reproduction

import (
	_ "embed"
	"slices"
	"strings"

	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/study/grid"
)

//go:embed methods.yaml
var methodsFile []byte

// method is a row: a method with its settings, at both scales or at one. Without settings it is the base as it is.
type method struct {
	Name        string
	Labels      bool // the method needs texts with labels
	Set         []string
	Demo, Small []string
}

// The scales of the embedded generator, and of a language model.
const (
	Demo  = "demo"
	Small = "small"
)

type methodList struct {
	Bases   struct{ Demo, Small Base }
	Methods []method
}

var readMethods = grid.Embedded[methodList]("methods.yaml", methodsFile)

// MethodNames are the names of all methods that are compared. All ask the same clients under the same ε, and methods
// that write text write as many rows.
func MethodNames() []string {
	return numeric.Map(readMethods().Methods, func(m method) string { return m.Name })
}

// MethodBase is what the methods have in common at a scale.
func MethodBase(scale string) Base {
	if scale == Small {
		return readMethods().Bases.Small
	}
	return readMethods().Bases.Demo
}

// MethodRows are the methods of the names as rows of a grid at a scale; for no name, all that texts with or without
// labels allow.
func MethodRows(scale string, names []string, labels bool) (rows []grid.Row, err error) {
	for _, name := range names {
		if !slices.Contains(MethodNames(), name) {
			return nil, quote.Errorf("%q is no method that is compared; there are %s", name,
				strings.Join(MethodNames(), ", "))
		}
	}
	for _, m := range readMethods().Methods {
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
