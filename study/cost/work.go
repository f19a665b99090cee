package cost

import (
	"popri/configs"
	"popri/datasets"
	"popri/datasets/kinds"
	"popri/methods/evolution"
	"popri/methods/policy"
	"popri/methods/sft"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/model/tensor"
	"popri/run/assembly"
	"popri/study/grid"
	"popri/trainer/pretrain"
)

// Work is the work of a run, from its configuration and the headers of its models.
type Work struct {
	Name        string  `json:"name"`
	Samples     int     `json:"samples"`      // of all rounds; for private_evolution, variations and look-ahead
	Pairs       int     `json:"pairs"`        // at most
	Product     int     `json:"product"`      // texts that the model writes at the end
	SmallModels int     `json:"small_models"` // that a study trains for it
	Flops       float64 `json:"flops"`        // of the matrix products of sampling and training, at full lengths
	Memory      int64   `json:"memory_bytes"` // of the generator, at most
	Done        bool    `json:"done"`         // the caller's to say
}

// Estimate estimates the work of a run.
func Estimate(cell grid.Cell) (Work, error) {
	c := cell.Config
	generator, small, err := shapes(c)
	if err != nil {
		return Work{}, err
	}
	models := 1
	if c.Eval.ReferencePrivate {
		models++ // shared by the runs of one seed
	}
	p := estimate(c, generator, small, models, false)
	p.Name = cell.Name
	return p, nil
}

// estimate estimates the work of a run with models of these shapes, after which so many small models are trained, and
// where it is evaluated, of the texts that the untuned model writes to compare with.
func estimate(c configs.Config, generator, small lm.Shape, models int, evaluation bool) Work {
	p := Work{Samples: c.Trainer.Rounds * c.Generate.Prompts * c.Generate.Samples, Product: c.Synthetic.Texts,
		SmallModels: models}
	if c.Learns() {
		p.SmallModels = max(0, models-1) // the product is one
	}
	if c.Method == "popri" {
		p.Pairs = c.Trainer.Rounds * c.Generate.Prompts
	}
	_, p.Memory = assembly.Most(assembly.MemoryPlan(c, generator))
	// Two operations a weight and token to write; six to train all weights; four with adapters alone, which need no
	// gradient of the weights, and two more for the reference.
	n := float64(generator.Parameters)
	prompt := float64(max(1, c.Generate.Examples) * c.Data.MaxTokens)
	ofPrompt := c.Generate.Samples // samples that share a prompt
	switch c.Method {
	case "public_selection", "dp_fedavg", "dp_ftrl": // training at the clients counts as theirs, and their texts are not counted here
		p.Samples, p.Product = 0, 0
	case "wasp":
		p.Samples = 0 // the product is all that is written
	case "private_evolution":
		p.Samples, ofPrompt = evolution.Written(c), 1
	case "hot_pate": // the teachers' passes are the clients' work, and are not counted here
		p.Samples, p.Product = 0, 0
	case "genetic_eda":
		if p.Samples, p.Product = c.GeneticEDA.Written, 0; c.GeneticEDA.Decoder == "prompt" {
			p.Samples += c.Trainer.Rounds * c.GeneticEDA.Parents
		}
		ofPrompt = 1
	}
	texts := p.Product
	if evaluation {
		texts += c.Synthetic.Texts
		if writesUntrained(c) {
			texts += c.Synthetic.Texts
		}
	}
	ofKinds := 0
	if c.Generate.Kinds != "" {
		list, err := kinds.Read(c.Generate.Kinds)
		if err == nil { // a list that cannot be read is told where it is read for use
			ofKinds = policy.KindSamples(len(list))
		}
	}
	written := float64(p.Samples)*(float64(c.Generate.MaxNewTokens)+prompt/float64(ofPrompt)) +
		float64(ofKinds)*float64(c.Generate.MaxNewTokens) +
		float64(texts)*(float64(c.Generate.MaxNewTokens)+prompt/float64(max(1, c.Synthetic.Samples)))
	learnt := float64(p.Pairs*c.Optimizer.Epochs) * (prompt + 2*float64(c.Generate.MaxNewTokens))
	switch c.Method {
	case "private_evolution_sft":
		learnt = sft.Share * float64(p.Samples*c.Optimizer.Epochs) * (prompt + float64(c.Generate.MaxNewTokens))
	case "grpo":
		learnt = float64(p.Samples*c.Optimizer.Epochs) * (prompt + float64(c.Generate.MaxNewTokens))
	}
	updates := float64(c.Downstream.Steps * c.Downstream.Batch)
	if c.Downstream.Epochs > 0 {
		updates = float64(c.Downstream.Epochs * (c.Synthetic.Texts + c.Synthetic.PublicTexts))
	}
	p.Flops = n*(2*written+6*learnt) +
		6*float64(small.Parameters)*updates*float64(c.Downstream.Length)*float64(p.SmallModels)
	return p
}

// shapes are those of the generator and of the small model.
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
