package main

import (
	"encoding/json"
	"io"
	"math"
	"text/tabwriter"
)

// emit prints a verb's result: as one JSON object with --json, else as text.
func (a *app) emit(result any, text func(w io.Writer)) error {
	if a.json {
		return json.NewEncoder(a.out).Encode(result)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// figure is a number that JSON shows as "inf" where it is infinite.
type figure float64

func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(f))
}
