package configs

import (
	"slices"
	"time"
)

// Trained is the value of model.path and downstream.model for a model that is trained on the public text alone.
const Trained = "trained"

// World is a layer of settings between the preset and the file. A later layer that names other private data withdraws
// its eval.reference_private as it does a preset's.
type World struct {
	Name string   // for messages, such as "world congress"
	Set  []string // assignments of the form "dpo.beta=0.1"
}

// beginsDate reports whether text is a date or the beginning of one, in whole parts; "" is.
func beginsDate(text string) bool {
	if text == "" {
		return true
	}
	return slices.ContainsFunc([]string{"2006", "2006-01", time.DateOnly}, func(form string) bool {
		_, err := time.Parse(form, text)
		return err == nil
	})
}

// Borrowed returns the keys with public text or models of the embedded default in a run on other clients, which these
// say nothing of.
func (c Config) Borrowed() (names []string) {
	const godoc, embedded = "godoc", "embedded"
	if c.Data.Private == godoc {
		return nil
	}
	if c.Data.Public == godoc || c.Data.Public == godoc+"-without-domain" {
		names = append(names, "data.public")
	}
	if c.Model.Path == embedded {
		names = append(names, "model.path")
	}
	if c.Downstream.Model == embedded {
		names = append(names, "downstream.model")
	}
	return names
}
