package experiment

import (
	"context"
	"fmt"
	"strings"

	"popri/downstream"
	"popri/methods/target"
	"popri/run/evaluator"
	"popri/sampling"
	"popri/trainer"
)

// Mix is one of the sets that the product was chosen from, in the event "mix".
type Mix struct {
	Name     string  `json:"name"` // "both", "written" or "public"
	Rows     int     `json:"rows"`
	Accuracy float64 `json:"accuracy"` // of the small model on the validation clients, at the step of least loss
	Loss     float64 `json:"loss"`     // nats a token
}

// Mixed says which set is the product, in the event "mixed".
type Mixed struct {
	Chosen string `json:"chosen"`
	Mixes  []Mix  `json:"mixes"`
}

// String says what was chosen, and from what.
func (m Mixed) String() string {
	var list []string
	for _, x := range m.Mixes {
		list = append(list, fmt.Sprintf("%s %.2f %% (%d rows)", x.Name, 100*x.Accuracy, x.Rows))
	}
	return fmt.Sprintf("the product is %q; accuracy on the validation clients: %s", m.Chosen, strings.Join(list, ", "))
}

// chooseMix returns the rows that teach the small model most about the validation clients: the method's product, the part
// of it that the model wrote, or public texts alone.
func (s *Session) chooseMix(ctx context.Context, stage trainer.Stage, product []sampling.Row) ([]sampling.Row, error) {
	public, written := parts(product)
	if len(public) == 0 || len(written) == 0 {
		return product, nil
	}
	chosen, err := target.Read(s.Dir)
	if err != nil {
		return nil, err
	}
	c := s.Config
	sets := [][]sampling.Row{product, written, target.Rows(chosen, c.PublicSelection.Rows, c.Seed)}
	names := []string{"both", "written", "public"}
	var sources []downstream.Source
	for i, set := range sets {
		sources = append(sources, evaluator.Source(c, names[i], names[i], set))
	}
	suite, err := evaluator.NewSuite(c, s.Population, s.Public.Generator)
	if err != nil {
		return nil, err
	}
	points, err := suite.Validate(ctx, sources)
	if err != nil {
		return nil, err
	}
	best, mixed := 0, Mixed{}
	for i, p := range points {
		mixed.Mixes = append(mixed.Mixes, Mix{names[i], len(sets[i]), p.Accuracy, p.Loss})
		if p.Accuracy > points[best].Accuracy {
			best = i
		}
	}
	mixed.Chosen = names[best]
	stage.Log("mixed", mixed)
	s.trainer.Events.Say(mixed.String())
	return sets[best], nil
}
