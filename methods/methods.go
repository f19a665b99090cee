// Package methods lists the methods that a run can use. A method is a folder here and a line below.
package methods

import (
	"popri/configs"
	"popri/methods/buttress"
	"popri/methods/ctcl"
	"popri/methods/evolution"
	"popri/methods/fedavg"
	"popri/methods/genetic"
	"popri/methods/grpo"
	"popri/methods/hotpate"
	"popri/methods/method"
	"popri/methods/popri"
	"popri/methods/selection"
	"popri/methods/sft"
	"popri/methods/wasp"
	"popri/methods/wordpairs"
)

// All are the methods, the default first.
var All []method.Description

func init() {
	Add(popri.Description,
		evolution.Description,
		sft.Description,
		grpo.Description,
		selection.Description,
		fedavg.FedAvg,
		fedavg.FTRL,
		wasp.Description,
		hotpate.Description,
		genetic.Description,
		buttress.Description,
		wordpairs.Description,
		ctcl.Description)
}

// Add adds methods, which a configuration can name from then on.
func Add(list ...method.Description) {
	for _, d := range list {
		All = append(All, d.Complete())
		configs.RegisterMethod(d.Method)
	}
}

// Further are the settings with which clients train the small model of a finished run further.
func Further(run string) []string {
	for _, d := range All {
		if d.Further != nil {
			return d.Further(run)
		}
	}
	return nil
}

// Of returns the method that a configuration names; it has been validated.
func Of(c configs.Config) method.Description {
	for _, d := range All {
		if d.Name == c.Method {
			return d
		}
	}
	return All[0]
}
