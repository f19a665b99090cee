package evaluator

import (
	"context"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/dpo/preference"
	"popri/eval/downstream"
	"popri/internal/fault"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/run/assembly"
)

// resamples is the number of resamples of the test clients for the confidence intervals. With fewer than 100, their
// ends vary much from seed to seed.
const resamples = 1000

// Validate trains the configuration's small model on each source and measures it on the validation clients, not on test
// clients. tell, if not nil, is told the work on all models. What was trained before a kill is not trained again.
func Validate(ctx context.Context, c configs.Config, population *clients.Population, public []datasets.Text,
	tell func(done, planned int), sources ...downstream.Source) ([]downstream.Point, error) {
	suite, err := Options{Cache: CacheDir(), Progress: Progress{Updated: tell}}.suite(c, population, public)
	if err != nil {
		return nil, err
	}
	return suite.Validate(ctx, sources)
}

// newSuite prepares the training of the configuration's small model. The public text gives a classification labels and
// its ε = 0 point.
func newSuite(c configs.Config, population *clients.Population, public []datasets.Text) (downstream.Suite, error) {
	d, recipe := c.Downstream, c.Downstream.Training()
	dir, err := assembly.ModelDir(d.Model, shipped.Device)
	if err != nil {
		return downstream.Suite{}, err
	}
	labels, err := classes(c, population, public)
	if err != nil {
		return downstream.Suite{}, err
	}
	shape, err := lm.Inspect(dir)
	if err != nil {
		return downstream.Suite{}, fault.User(err)
	}
	if err := checkContext(c, "in "+dir, shape); err != nil {
		return downstream.Suite{}, err
	}
	micro, recompute := assembly.SmallPasses(d, shape)
	options := downstream.Options{Steps: d.Steps, Epochs: d.Epochs, Batch: d.Batch, Micro: micro, Recompute: recompute,
		Length: d.Length, Rows: recipe.Rows, LearningRates: d.LearningRates, Trainings: d.Trainings, Schedule: recipe.Schedule,
		Warmup: recipe.Warmup, Measured: recipe.Measured, Tested: recipe.Tested, Patience: recipe.Patience,
		WeightDecay: recipe.WeightDecay, MaxNorm: recipe.MaxGradNorm, Dropout: recipe.Dropout, EvalEvery: d.EvalEvery,
		Best: d.Best, Seed: rng.Seed(c.Seed, "downstream"), Compute: assembly.ComputeType(c.Model.DType)}
	if d.Adapter == "lora" {
		options.LoRA = new(preference.Adapter(configs.LoRA{Rank: assembly.SmallRank, Alpha: 2 * assembly.SmallRank}, dir))
	}
	start := ""
	if assembly.Continued(c) {
		start = "small model of the run before"
	}
	return downstream.Suite{Start: start, ModelDir: dir, Population: population, Labels: labels, Zero: publicSource(c, public),
		Options: options}, nil
}
