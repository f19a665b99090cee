package study

import (
	"fmt"

	"popri/fedsim"
	"popri/methods/rounds"
)

// trueOrder is the figure of a round that only runs with privacy.unsafe_diagnostics have: the fraction of the pairs
// whose chosen sample has the higher score without noise, too (POPri, Figure 6).
const trueOrder = "true_order"

// Curve is a figure of each round in one row of an ablation.
type Curve struct {
	Values []string  `json:"values"` // of the row
	Key    string    `json:"key"`
	Rounds []float64 `json:"rounds"` // the means over the seeds
}

// Curves returns figures of each round, by their keys in metrics.json, or trueOrder. What a run does not have is left
// out.
func (a *Ablation) Curves(keys []string) ([]Curve, error) {
	var out []Curve
	for _, row := range a.Rows {
		for _, key := range keys {
			c := Curve{Values: row.Values, Key: key}
			for _, dir := range row.Runs {
				values, err := curveOf(dir, key)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", dir, err)
				}
				if c.Rounds == nil {
					c.Rounds = make([]float64, len(values))
				}
				c.Rounds = c.Rounds[:min(len(c.Rounds), len(values))] // a run may have ended early
				for i := range c.Rounds {
					c.Rounds[i] += values[i] / float64(len(row.Runs))
				}
			}
			if len(c.Rounds) > 0 {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

func curveOf(dir, key string) (values []float64, err error) {
	figures, err := rounds.ReadMetrics(dir)
	if err != nil {
		return nil, err
	}
	for _, m := range figures {
		v := m.Get(key)
		if key == trueOrder {
			d, err := fedsim.ReadDiagnosis(dir, m.Number)
			if err != nil {
				return nil, err
			}
			if ordered, ok := d.Figures["none"]["ordered"]; ok {
				v = &ordered
			}
		}
		if v == nil {
			break
		}
		values = append(values, *v)
	}
	return values, nil
}
