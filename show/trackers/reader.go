package trackers

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The events of a run that have figures.
const (
	Step     = "_step" // the end of the name of each event of an update, such as dpo_step
	DPOEval  = "dpo_eval"
	RoundEnd = "round_end"
)

// Kind is [Step] for an event of an update, and the event for others.
func Kind(event string) string {
	if strings.HasSuffix(event, Step) {
		return Step
	}
	return event
}

// roundPrefix distinguishes the figures of a round and of an update: both have a "loss".
const roundPrefix = "round/"

// Reader makes points of a run's events, in the order of the run.
type Reader struct {
	round int
	// Held-out pairs are measured after an update that is counted within its round. before counts the updates of
	// earlier rounds.
	before, last int64
}

// Read returns the figures of an event, by key. Fields are the fields of a line of steps.jsonl, evals.jsonl or
// metrics.json. Events without figures have none.
func (r *Reader) Read(event string, round int, fields map[string]any, at time.Time) []Point {
	if round > r.round {
		r.round, r.before = round, r.last
	}
	step, ok := number(fields["step"])
	switch kind := Kind(event); {
	case kind == Step && ok:
		r.last = max(r.last, int64(step))
		return figures(fields, int64(step), at, func(key string) string { return key })
	case kind == DPOEval && ok:
		return figures(fields, r.before+int64(step), at, func(key string) string {
			if strings.HasPrefix(key, "eval_") {
				return key
			}
			return "" // epoch, which the update has as well
		})
	case kind == RoundEnd:
		return figures(fields, int64(round), at, func(key string) string { return roundPrefix + key })
	}
	return nil
}

// figures makes points of the fields that are numbers; named returns a figure's name or "".
func figures(fields map[string]any, step int64, at time.Time, named func(key string) string) (points []Point) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, ok := number(fields[key])
		if name := named(key); ok && key != "step" && key != "round" && name != "" {
			points = append(points, Point{Key: name, Step: step, Time: at, Value: value})
		}
	}
	return points
}

func number(v any) (float64, bool) {
	f, ok := v.(float64) // as encoding/json reads it, so never NaN or infinite
	return f, ok
}
