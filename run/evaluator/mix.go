package evaluator

import (
	"context"
	"fmt"
	"strings"

	"popri/datasets/clients"
	"popri/eval/downstream"
	"popri/internal/numeric"
	"popri/methods/sampling"
	"popri/methods/target"
)

// Mix is one of the sets that the synthetic set was chosen from, in the event "mix".
type Mix struct {
	Name     string  `json:"name"` // "both", "written" or "public"
	Rows     int     `json:"rows"`
	Accuracy float64 `json:"accuracy"` // of the small model on the validation clients, at the step of least loss
	Loss     float64 `json:"loss"`     // nats a token
}

// Mixed says which of them was chosen, in the event "mixed".
type Mixed struct {
	Chosen string `json:"chosen"`
	Mixes  []Mix  `json:"mixes"`
}

// String says what was chosen, and from what.
func (m Mixed) String() string {
	list := numeric.Map(m.Mixes,
		func(x Mix) string { return fmt.Sprintf("%s %.2f %% (%d rows)", x.Name, 100*x.Accuracy, x.Rows) })
	return fmt.Sprintf("the synthetic set is %q; accuracy on the validation clients: %s", m.Chosen, strings.Join(list, ", "))
}

// ChooseMix returns the rows that teach the small model most about the validation clients: the synthetic set, the part of it
// that the model wrote, or public texts alone. mixed is nil if the synthetic set is of one kind, so that there is nothing to
// choose.
func ChooseMix(ctx context.Context, r Comparators, population *clients.Population, product []sampling.Row,
	tell func(done, planned int)) (chosen []sampling.Row, mixed *Mixed, err error) {
	public, written := Parts(product)
	if len(public) == 0 || len(written) == 0 {
		return product, nil, nil
	}
	selected, err := target.Read(r.Dir)
	if err != nil {
		return nil, nil, err
	}
	c := r.Config
	sets := [][]sampling.Row{product, written, target.Rows(selected, target.AllRows, c.Seed)}
	names := []string{"both", "written", "public"}
	var sources []downstream.Source
	for i, set := range sets {
		sources = append(sources, Source(c, names[i], names[i], set))
	}
	points, err := Validate(ctx, c, population, r.Public.Generator, tell, sources...)
	if err != nil {
		return nil, nil, err
	}
	best := 0
	mixed = &Mixed{}
	for i, p := range points {
		mixed.Mixes = append(mixed.Mixes, Mix{names[i], len(sets[i]), p.Accuracy, p.Loss})
		if p.Accuracy > points[best].Accuracy {
			best = i
		}
	}
	mixed.Chosen = names[best]
	return sets[best], mixed, nil
}
