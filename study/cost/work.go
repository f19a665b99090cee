package cost

import (
	"cmp"
	"math"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
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
	Flops       float64 `json:"flops"`              // of the matrix products of sampling and training
	Memory      int64   `json:"memory_bytes"`       // of the generator, at most
	SmallMemory int64   `json:"small_memory_bytes"` // of the small models' training, at most
	Done        bool    `json:"done"`               // the caller's to say
}

// Counts are the clients, texts and words of each split, which the work depends on.
type Counts map[clients.Split]clients.Counts

// CountsOf counts the clients of a configuration.
func CountsOf(c configs.Config) (Counts, error) {
	population, err := assembly.LoadPrivate(c)
	if err != nil {
		return nil, err
	}
	return counted(population), nil
}

func counted(population *clients.Population) Counts {
	n := Counts{}
	for _, split := range []clients.Split{clients.Train, clients.Validation, clients.Test} {
		n[split] = clients.Count(population.Split(split))
	}
	return n
}

// tokens is about how many tokens a text has, up to most: four for three words of the validation clients' texts, and the
// most if they have none.
func (n Counts) tokens(most int) int {
	if of := n[clients.Validation]; of.Words > 0 {
		most = min(most, (4*of.Words+3*of.Texts-1)/(3*of.Texts))
	}
	return most
}

// Estimate estimates the work of a run on these clients.
func Estimate(cell grid.Cell, n Counts) (Work, error) {
	c := cell.Config
	generator, small, err := shapes(c)
	if err != nil {
		return Work{}, err
	}
	p := estimate(c, generator, small, n, evaluated(c, false, methods.Of(c).Name)) // ε = ∞ is shared by the runs of one seed
	p.Name = cell.Name
	return p, nil
}

// estimate estimates the work of a run with models of these shapes and of an evaluation with these rows, for some of which
// texts are written. The memory is for the longest texts, the operations are for texts as long as the clients' behind the
// longest prompts.
func estimate(c configs.Config, generator, small lm.Shape, of Counts, rows []string) Work {
	m := methods.Of(c)
	memory := c
	for _, length := range []*int{&c.Generate.MaxNewTokens, &c.Downstream.Length} {
		*length = of.tokens(*length)
	}
	cost := m.Cost(c)
	p := Work{Samples: cost.Samples, Pairs: cost.Pairs, Product: cost.Product, SmallModels: len(rows) * c.Downstream.Trainings}
	if m.ChoosesMix(c) {
		p.SmallModels += 3
	}
	if !c.AtClients() || slices.Contains(rows, evaluation.KeyUntuned) {
		_, p.Memory = assembly.Most(assembly.MemoryPlan(memory, generator))
	}
	p.SmallMemory = assembly.SmallMemory(memory, small)
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
	ofKinds := 0 // also of a list that cannot be read, which is told where it is read for use
	if list, err := datasets.ReadKinds(c.Generate.Kinds); err == nil && len(list) > 0 {
		ofKinds = policy.KindSamples(len(list))
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
	learns := map[bool]float64{true: 4, false: 6}[c.Downstream.Adapter == "lora"]
	p.Flops = n*(2*written+6*float64(cost.Trained)) +
		learns*float64(small.Parameters)*updates*float64(c.Downstream.Length)*float64(p.SmallModels) +
		of.training(c, small) + of.voting(c, n)
	return p
}

// training is the work of a simulation whose clients train the small model, a pass over their texts in a round, and which
// measures it on the validation clients after each. Frozen weights have no gradients.
func (n Counts) training(c configs.Config, small lm.Shape) float64 {
	needs, of, each := methods.Of(c).Needs(c), n[clients.Train], 6.0
	if !needs.Small || needs.Counts || of.Clients == 0 {
		return 0
	}
	if needs.Rank > 0 {
		each = 4
	}
	if needs.Rows > 0 {
		of.Texts = min(of.Texts, needs.Rows*of.Clients)
	}
	if asked := c.Fed.ClientsPerRound; asked > 0 {
		each *= float64(asked) / float64(of.Clients)
	}
	texts := each*float64(of.Texts) + 2*float64(n[clients.Validation].Texts)
	return texts * float64(methods.Of(c).Releases(c)) * float64(c.Downstream.Length) * float64(small.Parameters)
}

// voting is the operations of clients who vote for each token as teachers, of whom each reads its prompt and half a text
// again for a vote: keys and values of all rarely fit.
func (n Counts) voting(c configs.Config, weights float64) float64 {
	teachers := methods.Of(c).Needs(c).Teachers
	if teachers == nil {
		return 0
	}
	tokens := teachers.Examples*c.Generate.MaxNewTokens + c.Generate.MaxNewTokens/2
	voters := cmp.Or(teachers.Number, n[clients.Train].Clients)
	return 2 * weights * float64(methods.Of(c).Releases(c)*voters*tokens)
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

// sizes are the fractions of a run's texts, at all of its rounds, and then of its rounds, at a quarter of its texts, that
// [Fit] tries: a quarter of the texts teach a pretrained small model nearly as much, and fewer rounds do not
// (docs/lab/2026-11-29-more-rounds.md).
var sizes = []float64{1, 0.75, 0.5, 0.35, 0.25}

// Fit returns the configuration with the largest fractions of its rounds and texts, between all and a quarter, with
// which the run and its evaluation by these rows (none: all) take up to most floating-point operations, and how many
// they take. Where a quarter of both takes more, it returns that. Models that are trained first are not counted.
func Fit(c configs.Config, rows []string, most float64) (fitted configs.Config, flops float64, err error) {
	generator, small, err := shapes(c)
	if err != nil {
		return c, 0, err
	}
	n, err := CountsOf(c)
	if err != nil {
		return c, 0, err
	}
	share := func(count int, of float64) int { return int(math.Ceil(of * float64(count))) }
	for i := range 2*len(sizes) - 1 {
		rounds, texts := sizes[max(0, i-len(sizes)+1)], sizes[min(i, len(sizes)-1)]
		fitted = c
		fitted.Trainer.Rounds = share(c.Trainer.Rounds, rounds)
		fitted.Synthetic.Texts, fitted.Synthetic.PublicTexts = share(c.Synthetic.Texts, texts), share(c.Synthetic.PublicTexts, texts)
		flops = estimate(fitted, generator, small, n, evaluated(fitted, false, rows...)).Flops
		if flops <= most {
			break
		}
	}
	return fitted, flops, nil
}
