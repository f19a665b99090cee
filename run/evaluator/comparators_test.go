package evaluator

import (
	"context"
	"slices"
	"testing"

	"popri/configs"
	"popri/methods/sampling"
	"popri/run/evaluation"
)

// TestUntrained: the row without training differs from the synthetic set in what the model wrote, and in nothing else: it has
// the synthetic set's public texts, and none where the synthetic set has none or is public text alone.
func TestUntrained(t *testing.T) {
	public := []sampling.Row{{Text: "p", Finish: sampling.Public}, {Text: "q", Finish: sampling.Public}}
	written := []sampling.Row{{Text: "w", Finish: "stop"}}
	for name, of := range map[string]struct {
		product []sampling.Row
		want    []string
	}{
		"both":    {slices.Concat(public, written), []string{"p", "q", "u"}},
		"written": {written, []string{"u"}},
		"public":  {public, []string{"u"}},
	} {
		r := Comparators{Config: configs.Default(), product: of.product, mixes: slices.Concat(public, written),
			Untrained: func(context.Context) ([]sampling.Row, error) {
				return []sampling.Row{{Text: "u", Finish: "stop"}}, nil
			}}
		src, err := r.source(context.Background(), evaluation.KeyUntrained)
		if err != nil || !slices.Equal(src.Texts, of.want) {
			t.Errorf("%s: %v: %q, want %q", name, err, src.Texts, of.want)
		}
	}
}
