package configs

import (
	"strings"
	"time"

	"popri/internal/quote"
)

// Trained is the value of model.path and downstream.model for a model that is trained on the public text alone.
const Trained = "trained"

// World is a layer of settings between the preset and the file. A later layer that names other private data withdraws
// its eval.reference_private as it does a preset's.
type World struct {
	Name string   // for messages, such as "world congress"
	Set  []string // assignments of the form "dpo.beta=0.1"
}

// world reads the assignments of a world.
func (l *loader) world(w World) layer {
	out := layer{map[string]any{}, map[string]string{}}
	for _, assignment := range w.Set {
		name, text, found := strings.Cut(assignment, "=")
		k, ok := lookup(name)
		if !found || !ok {
			l.problems = append(l.problems, Problem{Where: w.Name, Text: quote.Sprintf("%q sets no key", assignment)})
			continue
		}
		value, err := k.parse(text)
		if err != nil {
			l.problems = append(l.problems, Problem{Where: w.Name, Key: name, Text: err.Error()})
			l.broken[name] = true
			continue
		}
		out.values[name], out.where[name] = value, w.Name
	}
	return out
}

// beginsDate reports whether text is a date or the beginning of one, in whole parts; "" is.
func beginsDate(text string) bool {
	if text == "" {
		return true
	}
	for _, form := range []string{"2006", "2006-01", time.DateOnly} {
		if _, err := time.Parse(form, text); err == nil {
			return true
		}
	}
	return false
}
