package cost

import (
	"math"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/policy"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/run/evaluation"
	"popri/study/grid"
	"popri/trainer/pretrain"
)

// Work is the work of a run, from its configuration and the headers of its models.
type Work struct {
	Name        string  `json:"name"`
	Samples     int     `json:"samples"`            // of all rounds, with all that is written for them
	Pairs       int     `json:"pairs"`              // at most
	Product     int     `json:"product"`            // texts that the model writes at the end
	SmallModels int     `json:"small_models"`       // that a study trains for it
	Flops       float64 `json:"flops"`              // of the matrix products of sampling and training, at full lengths
	Memory      int64   `json:"memory_bytes"`       // of the generator, at most
	SmallMemory int64   `json:"small_memory_bytes"` // of the small models' training, at most
	Done        bool    `json:"done"`               // the caller's to say
}

// Estimate estimates the work of a run.
func Estimate(cell grid.Cell) (Work, error) {
	c := cell.Config
	generator, small, err := shapes(c)
	if err != nil {
		return Work{}, err
	}
	p := estimate(c, generator, small, evaluated(c, false, methods.Of(c).Name)) // ε = ∞ is shared by the runs of one seed
	p.Name = cell.Name
	return p, nil
}

// estimate estimates the work of a run with models of these shapes and of an evaluation with these rows, for some of which
// texts are written.
func estimate(c configs.Config, generator, small lm.Shape, rows []string) Work {
	m := methods.Of(c)
	cost := m.CostOf(c)
	p := Work{Samples: cost.Samples, Pairs: cost.Pairs, Product: cost.Product, SmallModels: len(rows)}
	if m.ChoosesMix(c) {
		p.SmallModels += 3
	}
	if !c.AtClients() || slices.Contains(rows, evaluation.KeyUntuned) {
		_, p.Memory = assembly.Most(assembly.MemoryPlan(c, generator))
	}
	p.SmallMemory = assembly.SmallMemory(c, small)
	// Two operations a weight and token to write; six to train all weights; four with adapters alone, which need no
	// gradient of the weights, and two more for the reference.
	n := float64(generator.Parameters)
	prompt := float64(method.PromptTokens(c))
	texts := p.Product
	for _, key := range []string{evaluation.KeyUntuned, evaluation.KeyUntrained} {
		if slices.Contains(rows, key) {
			texts += c.Synthetic.Texts
		}
	}
	ofKinds := 0
	if c.Generate.Kinds != "" {
		list, err := datasets.ReadKinds(c.Generate.Kinds)
		if err == nil { // a list that cannot be read is told where it is read for use
			ofKinds = policy.KindSamples(len(list))
		}
	}
	samples := p.Samples
	if slices.Contains(rows, evaluation.KeyUntrained) && c.Generate.Quote == "scored" { // the rounds after the first again
		samples += p.Samples * (c.Trainer.Rounds - 1) / c.Trainer.Rounds
	}
	written := float64(samples)*(float64(c.Generate.MaxNewTokens)+prompt/float64(max(1, cost.Shared))) +
		float64(ofKinds)*float64(c.Generate.MaxNewTokens) +
		float64(texts)*(float64(c.Generate.MaxNewTokens)+prompt/float64(max(1, c.Synthetic.Samples)))
	updates := float64(c.Downstream.Steps * c.Downstream.Batch)
	if c.Downstream.Epochs > 0 {
		updates = float64(c.Downstream.Epochs * (c.Synthetic.Texts + c.Synthetic.PublicTexts))
	}
	p.Flops = n*(2*written+6*float64(cost.Trained)) +
		6*float64(small.Parameters)*updates*float64(c.Downstream.Length)*float64(p.SmallModels)
	return p
}

// shapes are the shapes of the generator and of the small model.
func shapes(c configs.Config) (generator, small lm.Shape, err error) {
	if generator, err = shapeOf(c.Model.Path, shipped.Generator, pretrain.Generator); err == nil {
		small, err = shapeOf(c.Downstream.Model, shipped.Device, pretrain.Device)
	}
	return generator, small, err
}

func shapeOf(model, embedded, role string) (lm.Shape, error) {
	if model == configs.Trained { // its shape does not depend on the text
		shape, _ := pretrain.Small(datasets.Public{}, role, tensor.Float32).Shape()
		return shape, nil
	}
	dir, err := assembly.ModelDir(model, embedded)
	if err != nil {
		return lm.Shape{}, err
	}
	return lm.Inspect(dir)
}

// sizes are the fractions of a run's rounds and texts that [Fit] tries.
var sizes = []float64{1, 0.75, 0.5, 0.35, 0.25}

// Fit returns the configuration with the largest fraction of its rounds and texts, between all and a quarter, with
// which the run and its evaluation by these rows (none: all) take up to most floating-point operations, and how many
// they take. Where a quarter takes more, it returns a quarter. Models that are trained first are not counted.
func Fit(c configs.Config, rows []string, most float64) (fitted configs.Config, flops float64, err error) {
	generator, small, err := shapes(c)
	if err != nil {
		return c, 0, err
	}
	for _, share := range sizes {
		fitted = c
		for _, count := range []*int{&fitted.Trainer.Rounds, &fitted.Synthetic.Texts, &fitted.Synthetic.PublicTexts} {
			*count = int(math.Ceil(share * float64(*count)))
		}
		flops = estimate(fitted, generator, small, evaluated(fitted, false, rows...)).Flops
		if flops <= most {
			break
		}
	}
	return fitted, flops, nil
}
