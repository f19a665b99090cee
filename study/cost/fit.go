package cost

import (
	"math"

	"popri/configs"
)

// sizes are the shares of a run's rounds and texts that [Fit] tries.
var sizes = []float64{1, 0.75, 0.5, 0.35, 0.25}

// Fit returns the configuration with the largest share of its rounds and of its product's texts, between all and a
// quarter of them, with which the run and its evaluation take at most so many floating-point operations, and how many
// they take. Where a quarter takes more, that is what it returns. Models that are trained first are not counted.
func Fit(c configs.Config, most float64) (fitted configs.Config, flops float64, err error) {
	generator, small, err := shapes(c)
	if err != nil {
		return c, 0, err
	}
	for _, share := range sizes {
		fitted = c
		for _, count := range []*int{&fitted.Trainer.Rounds, &fitted.Synthetic.Texts, &fitted.Synthetic.PublicTexts} {
			*count = int(math.Ceil(share * float64(*count)))
		}
		flops = estimate(fitted, generator, small, smallModels(fitted, true, false), true).Flops
		if flops <= most {
			break
		}
	}
	return fitted, flops, nil
}
