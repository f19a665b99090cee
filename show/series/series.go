// Package series describes the figures of each round: their names, formats and plots. A method has its own; pages,
// tables and comparisons show all of them.
package series

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Format is the way in which a figure is shown.
type Format string

// The formats.
const (
	Number  Format = "number"  // with Decimals
	Percent Format = "percent" // a fraction, with Decimals
	Count   Format = "count"   // a whole number
	Bound   Format = "bound"   // rounded up to four digits
)

// Series is a figure of each round.
type Series struct {
	Key      string `json:"key"`  // in metrics.json and the event log
	Name     string `json:"name"` // as the head of a column
	Format   Format `json:"format"`
	Decimals int    `json:"decimals,omitempty"`
}

// Plot is a plot of one or more series over the rounds.
type Plot struct {
	Title   string `json:"title"`
	Note    string `json:"note,omitempty"`
	Percent bool   `json:"percent,omitempty"`
	// Lines are the keys of series and their names in the plot; a comparison of runs shows the first.
	Lines []Line `json:"lines"`
	// Budget draws the run's budget as a line and starts at zero.
	Budget bool `json:"budget,omitempty"`
}

// Line is one series in a plot.
type Line struct {
	Key  string `json:"key"`
	Name string `json:"name"`
}

// Set is all figures of a method, in the order in which they are shown.
type Set struct {
	Columns []Series `json:"columns,omitempty"`
	Plots   []Plot   `json:"plots,omitempty"`
}

// EpsilonKey is the key of the ε that was spent up to a round, which every method has.
const EpsilonKey = "epsilon_spent"

// WithPrivacy adds the figure that every method has: the ε that was spent.
func (s Set) WithPrivacy() Set {
	s.Columns = append(slices.Clone(s.Columns), Series{Key: EpsilonKey, Name: "ε spent", Format: Bound})
	s.Plots = append(slices.Clone(s.Plots), Plot{Title: "Privacy spent", Note: "ε up to each round, and the budget",
		Lines: []Line{{EpsilonKey, "spent"}}, Budget: true})
	return s
}

// Round has the figures of one round. As JSON it is one flat object with "round" among the keys.
type Round struct {
	Number int
	Values map[string]float64
}

// NewRound makes an empty one.
func NewRound(number int) *Round { return &Round{number, map[string]float64{}} }

// Set sets a figure.
func (r *Round) Set(key string, v float64) { r.Values[key] = v }

// SetIf sets a figure, unless it is nil.
func (r *Round) SetIf(key string, v *float64) {
	if v != nil {
		r.Values[key] = *v
	}
}

// Add adds to a figure.
func (r *Round) Add(key string, v float64) { r.Values[key] += v }

// Get returns a figure, or nil.
func (r Round) Get(key string) *float64 {
	v, ok := r.Values[key]
	if !ok {
		return nil
	}
	return &v
}

// Keys returns the keys of all figures, sorted.
func (r Round) Keys() []string { return slices.Sorted(maps.Keys(r.Values)) }

const roundKey = "round"

// MarshalJSON implements json.Marshaler.
func (r Round) MarshalJSON() ([]byte, error) {
	all := make(map[string]float64, len(r.Values)+1)
	maps.Copy(all, r.Values)
	all[roundKey] = float64(r.Number)
	return json.Marshal(all) // sorted by key
}

// UnmarshalJSON implements json.Unmarshaler. It skips values that are not numbers: true and false of earlier versions.
func (r *Round) UnmarshalJSON(b []byte) error {
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	number, ok := all[roundKey].(float64)
	if !ok {
		return fmt.Errorf("the metrics of a round do not say of which")
	}
	*r = *NewRound(int(number))
	for key, v := range all {
		if f, ok := v.(float64); ok && key != roundKey {
			r.Values[key] = f
		}
	}
	return nil
}
