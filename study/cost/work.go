package cost

import (
	"popri/model/lm"
	"popri/model/shipped"
	"popri/run/assembly"
	"popri/study/grid"
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
	p := Work{Name: cell.Name, Samples: c.Trainer.Rounds * c.Generate.Prompts * c.Generate.Samples,
		Product: c.Synthetic.Texts, SmallModels: 1}
	if c.Method == "popri" {
		p.Pairs = c.Trainer.Rounds * c.Generate.Prompts
	}
	if c.Eval.ReferencePrivate {
		p.SmallModels++ // shared by the runs of one seed
	}
	generator, err := shapeOf(c.Model.Path, shipped.Generator)
	if err != nil {
		return p, err
	}
	small, err := shapeOf(c.Downstream.Model, shipped.Device)
	if err != nil {
		return p, err
	}
	_, p.Memory = assembly.Most(assembly.MemoryPlan(c, generator))
	// Two operations a weight and token to write; six to train all weights; four with adapters alone, which need no
	// gradient of the weights, and two more for the reference.
	n := float64(generator.Parameters)
	prompt := float64(max(1, c.Generate.Examples) * c.Data.MaxTokens)
	ofPrompt := c.Generate.Samples // samples that share a prompt
	switch e := c.PrivateEvolution; {
	case c.Method == "public_selection":
		p.Samples = 0
	case c.Method == "private_evolution" && e.Variant == "aug_pe":
		p.Samples, ofPrompt = c.Trainer.Rounds*e.Population*(e.LookAhead*(1+e.Variations)+e.Variations), 1
	case c.Method == "private_evolution":
		p.Samples, ofPrompt = (c.Trainer.Rounds*(e.LookAhead+1)-1)*e.Population, 1 // the first population is public text
	}
	written := float64(p.Samples)*(float64(c.Generate.MaxNewTokens)+prompt/float64(ofPrompt)) +
		float64(p.Product)*(float64(c.Generate.MaxNewTokens)+prompt/float64(max(1, c.Synthetic.Samples)))
	learnt := float64(p.Pairs*c.Optimizer.Epochs) * (prompt + 2*float64(c.Generate.MaxNewTokens))
	switch c.Method {
	case "private_evolution_sft":
		learnt = c.PrivateEvolutionSFT.Share * float64(p.Samples*c.Optimizer.Epochs) * (prompt + float64(c.Generate.MaxNewTokens))
	case "grpo":
		learnt = float64(p.Samples*c.Optimizer.Epochs) * (prompt + float64(c.Generate.MaxNewTokens))
	}
	updates := float64(c.Downstream.Steps * c.Downstream.Batch)
	if c.Downstream.Epochs > 0 {
		updates = float64(c.Downstream.Epochs * (c.Synthetic.Texts + c.Synthetic.PublicTexts))
	}
	p.Flops = n*(2*written+6*learnt) +
		6*float64(small.Parameters)*updates*float64(c.Downstream.Length)*float64(p.SmallModels)
	return p, nil
}

func shapeOf(model, embedded string) (lm.Shape, error) {
	dir, err := assembly.ModelDir(model, embedded)
	if err != nil {
		return lm.Shape{}, err
	}
	return lm.Inspect(dir)
}
