// Package reproduction lists the tables and figures of the POPri paper as grids of runs, and the grid "scaling", which
// is popri's own: paper.yaml says what is varied, at the scale of the embedded default, of a small language model on
// speeches, and of the paper. It also lists the methods that popri compare-methods compares (methods.yaml), and
// computes the noise of Table 3 (table3.go). It runs nothing.
package reproduction

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/study/grid"
)

//go:embed paper.yaml
var file []byte

// Experiment is a table or a figure.
type Experiment struct {
	Name  string // as a user types it
	Of    string // its place in the paper
	Title string
	Paper string // what the paper found
	Note  string // what is different here
	Runs  string // the experiment whose runs show it, if they are the same
	// Command is the verb that computes the figure where no runs are needed.
	Command string
	// DemoPreset and PaperPreset replace the preset of a scale for this experiment.
	DemoPreset  string `yaml:"demo_preset"`
	PaperPreset string `yaml:"paper_preset"`
	// Small says that the experiment is possible at the scale "small".
	Small bool
	// Costs says that the experiment is about what the runs cost, which is printed after their results.
	Costs bool
	// Curves are figures of each round that are printed after the results, as [study.Ablation.Curves] takes them.
	Curves []string
	// Set has the settings of all scales; DemoSet, SmallSet and PaperSet have the settings of one scale.
	Set      []string
	DemoSet  []string `yaml:"demo_set"`
	SmallSet []string `yaml:"small_set"`
	PaperSet []string `yaml:"paper_set"`
	// Over has the axes that vary, in the form that popri ablate takes, and Instead the rows besides the settings as
	// they are. Those that begin with a scale's name are added at that scale.
	Over         []string
	DemoOver     []string `yaml:"demo_over"`
	SmallOver    []string `yaml:"small_over"`
	PaperOver    []string `yaml:"paper_over"`
	Instead      []string
	DemoInstead  []string `yaml:"demo_instead"`
	SmallInstead []string `yaml:"small_instead"`
	PaperInstead []string `yaml:"paper_instead"`
	// Again has settings with which the row of the settings as they are and all rows of Instead are done once more.
	Again []string
}

// Base is what the experiments of a scale, or the methods that are compared at it, have in common.
type Base struct {
	Preset string
	World  string // of package worlds; "" for the data that the preset names
	Set    []string
}

// Scales are the names of the scales.
var Scales = []string{Demo, Small, "paper"}

// Grid is an experiment at one scale: a preset, settings on top of it, and what varies.
type Grid struct {
	Preset  string
	World   string // of package worlds, or empty
	Set     []string
	Over    []string
	Instead []string
	Runs    string // the experiment whose runs these are, or empty
}

type list struct {
	Demo, Small, Paper Base
	Experiments        []Experiment
}

var read = grid.Embedded[list]("paper.yaml", file)

// All lists the experiments in the paper's order.
func All() []Experiment { return read().Experiments }

// Find returns an experiment by name.
func Find(name string) (Experiment, error) {
	list := All()
	i := slices.IndexFunc(list, func(e Experiment) bool { return e.Name == name })
	if i < 0 {
		names := numeric.Map(list, func(e Experiment) string { return e.Name })
		return Experiment{}, quote.Errorf("%q is none of the paper's tables and figures here: %s", name,
			strings.Join(names, ", "))
	}
	return list[i], nil
}

// Grid returns the experiment at a scale.
func (e Experiment) Grid(scale string) (Grid, error) {
	l := read()
	part, ok := map[string]struct {
		base               Base
		preset             string
		set, over, instead []string
	}{Demo: {l.Demo, e.DemoPreset, e.DemoSet, e.DemoOver, e.DemoInstead},
		Small:   {l.Small, "", e.SmallSet, e.SmallOver, e.SmallInstead},
		"paper": {l.Paper, e.PaperPreset, e.PaperSet, e.PaperOver, e.PaperInstead}}[scale]
	switch {
	case !ok:
		return Grid{}, quote.Errorf("the scale is %q, want %s", scale, strings.Join(Scales, ", "))
	case scale == Small && !e.Small:
		var names []string
		for _, other := range All() {
			if other.Small {
				names = append(names, other.Name)
			}
		}
		return Grid{}, quote.Errorf("%q has no scale small; %s have one", e.Name, strings.Join(names, ", "))
	}
	g := Grid{Preset: cmp.Or(part.preset, part.base.Preset), World: part.base.World,
		Set: slices.Concat(part.base.Set, e.Set, part.set), Over: slices.Concat(e.Over, part.over),
		Instead: e.rows(part.instead), Runs: e.Runs}
	if scale == "paper" && e.PaperPreset != "" { // another preset makes other runs
		g.Runs = ""
	}
	return g, nil
}

// rows are what replaces settings at a scale.
func (e Experiment) rows(more []string) []string {
	once := slices.Concat(e.Instead, more)
	out := slices.Clone(once)
	for _, setting := range e.Again {
		out = append(out, setting)
		for _, row := range once {
			out = append(out, setting+" "+row)
		}
	}
	return out
}
