// Package losses lists the preference losses (dpo.loss) with what other settings depend on. Package dpo
// computes them.
package losses

import "slices"

// Loss is what must be known of a loss before it is computed.
type Loss struct {
	Name     string // TRL's, where it has one
	TRL      bool   // TRL's DPOTrainer has it
	Smoothed bool   // assumes that some labels are swapped
}

// list has the losses.
var list = []Loss{
	{Name: "sigmoid", TRL: true},
	{Name: "sigmoid_norm", TRL: true},
	{Name: "cdpo", Smoothed: true},
	{Name: "robust", TRL: true, Smoothed: true},
	{Name: "hinge", TRL: true},
	{Name: "ipo", TRL: true},
	{Name: "exo_pair", TRL: true, Smoothed: true},
	{Name: "discopop", TRL: true},
	{Name: "nca_pair", TRL: true},
	{Name: "bco_pair", TRL: true},
	{Name: "sppo_hard", TRL: true},
	{Name: "apo_zero", TRL: true},
	{Name: "apo_down", TRL: true},
	{Name: "sft", TRL: true},
	{Name: "ipo_sum"},
	{Name: "cpo"},
	{Name: "simpo"},
	{Name: "orpo"},
	{Name: "aot", Smoothed: true},
	{Name: "aot_unpaired", Smoothed: true},
	{Name: "kto_pair"},
	{Name: "rebel"},
	{Name: "qrpo"},
}

// Names are the names of the losses that are asked for; nil asks for all.
func Names(asked func(Loss) bool) (names []string) {
	for _, l := range list {
		if asked == nil || asked(l) {
			names = append(names, l.Name)
		}
	}
	return names
}

// Find returns the loss of a name.
func Find(name string) (Loss, bool) {
	if i := slices.IndexFunc(list, func(l Loss) bool { return l.Name == name }); i >= 0 {
		return list[i], true
	}
	return Loss{}, false
}
