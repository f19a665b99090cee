package cost

import (
	"cmp"
	"math"
	"slices"

	"popri/configs"
	"popri/datasets"
	"popri/datasets/clients"
	"popri/internal/fault"
	"popri/methods"
	"popri/methods/method"
	"popri/methods/policy"
	"popri/model/embedding/sentence"
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
	Flops       float64 `json:"flops"`              // of the matrix products of sampling, training and embedding
	Memory      int64   `json:"memory_bytes"`       // of the generator, at most
	SmallMemory int64   `json:"small_memory_bytes"` // of the small models' training, at most
	Done        bool    `json:"done"`               // the caller's to say
}

// Counts are the clients, texts and words of each split, and about how many tokens the public texts have, which the work
// depends on.
type Counts struct {
	Clients map[clients.Split]clients.Counts
	Public  int
}

// CountsOf counts the texts of a configuration.
func CountsOf(c configs.Config) (Counts, error) {
	corpus, err := assembly.LoadData(c)
	if err != nil {
		return Counts{}, err
	}
	return counted(c, corpus), nil
}

func counted(c configs.Config, corpus *assembly.Corpus) Counts {
	n := Counts{Clients: map[clients.Split]clients.Counts{}}
	for _, split := range clients.Splits {
		n.Clients[split] = clients.Count(corpus.Private.Split(split))
	}
	texts := corpus.Public.Prompts
	n.Public = min(4*datasets.Words(texts)/3, len(texts)*c.Data.MaxTokens)
	return n
}

// tokens is about how many tokens a text has, up to most: four for three words of the validation clients' texts, and the
// most if they have none.
func (n Counts) tokens(most int) int {
	if of := n.Clients[clients.Validation]; of.Words > 0 {
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
	rows := evaluated(c, false, methods.Of(c).Name) // ε = ∞ is shared by the runs of one seed
	p, err := estimate(c, generator, small, n, rows)
	p.Name = cell.Name
	return p, err
}

// estimate estimates the work of a run with models of these shapes and of an evaluation with these rows, for some of which
// texts are written. The memory is for the longest texts, the operations are for texts as long as the clients' behind the
// longest prompts.
func estimate(c configs.Config, generator, small lm.Shape, of Counts, rows []string) (Work, error) {
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
	embedding, err := of.embedding(c, p.Samples+p.Product)
	p.Flops += embedding
	return p, err
}

// embedding is the work of comparing texts by a sentence encoder: the train clients', those that the model writes, and with
// one release the public ones. These products reach nearly the machine's rate, sampling and training half of it
// (docs/performance.md), so an operation counts half.
func (n Counts) embedding(c configs.Config, written int) (float64, error) {
	d := methods.Of(c)
	if slices.Contains(configs.Encoders, c.Scoring.Encoder) || c.AtClients() || d.Needs(c).Teachers != nil {
		return 0, nil
	}
	dir, err := assembly.EncoderDir(c.Scoring.Encoder)
	if err != nil {
		return 0, err
	}
	weights, err := sentence.Multiplied(dir)
	tokens := n.Clients[clients.Train].Texts*c.Generate.MaxNewTokens + written*c.Generate.MaxNewTokens
	if c.Scoring.Release == "once" {
		tokens += n.Public
	}
	return float64(weights) * float64(tokens), fault.User(err)
}

// training is the work of a simulation whose clients train the small model, a pass over their texts in a round, and which
// measures it on the validation clients after each. Frozen weights have no gradients.
func (n Counts) training(c configs.Config, small lm.Shape) float64 {
	needs, of, each := methods.Of(c).Needs(c), n.Clients[clients.Train], 6.0
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
	texts := each*float64(of.Texts) + 2*float64(n.Clients[clients.Validation].Texts)
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
	voters := cmp.Or(teachers.Number, n.Clients[clients.Train].Clients)
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

// parts are fractions of a run's texts, of its rounds and of the small models' updates.
type parts struct{ texts, rounds, updates float64 }

// sizes are the parts that [Fit] tries. A quarter of the texts teach a pretrained small model nearly as much. Fewer
// rounds teach less, and with fewer updates, chance decides what a small model learns of a text's beginning
// (docs/lab/2026-11-29-more-rounds.md).
var sizes = []parts{{1, 1, 1}, {0.75, 1, 1}, {0.5, 1, 1}, {0.35, 1, 1}, {0.25, 1, 1}, {0.25, 0.75, 1}, {0.25, 0.5, 1},
	{0.25, 0.35, 1}, {0.25, 0.25, 1}, {0.25, 0.25, 0.75}, {0.25, 0.25, 0.5}}

// Fit returns the configuration with the largest parts of its texts, rounds and updates with which the run and its
// evaluation by these rows (none: all) take up to most floating-point operations, and how many they take: a quarter of
// its texts and rounds and half of its updates where that takes more, too. Models that are trained first are not counted.
func Fit(c configs.Config, rows []string, most float64) (fitted configs.Config, flops float64, err error) {
	generator, small, err := shapes(c)
	if err != nil {
		return c, 0, err
	}
	n, err := CountsOf(c)
	if err != nil {
		return c, 0, err
	}
	share := func(count *int, of float64) { *count = int(math.Ceil(of * float64(*count))) }
	for i, of := range sizes {
		if i > 0 && flops <= most {
			break
		}
		fitted = c
		share(&fitted.Synthetic.Texts, of.texts)
		share(&fitted.Synthetic.PublicTexts, of.texts)
		share(&fitted.Downstream.Steps, of.updates)
		share(&fitted.Downstream.EvalEvery, of.updates)
		share(&fitted.Trainer.Rounds, of.rounds)
		work, err := estimate(fitted, generator, small, n, evaluated(fitted, false, rows...))
		if flops = work.Flops; err != nil {
			return c, 0, err
		}
	}
	return fitted, flops, nil
}
