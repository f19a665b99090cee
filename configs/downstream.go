package configs

import "fmt"

// Downstream says how the synthetic set is evaluated: a small model is trained on it and tested on the private test
// clients.
type Downstream struct {
	// Task is what the small model learns: "next_token", to write text like its training text; or "classification", to give
	// a text its label, judged by accuracy and macro F1. The latter needs labelled texts: the column label of data.private
	// and data.public, and generate.by_label for those of the product. Its ε = 0 point is the same model trained on the
	// public text. Default "next_token".
	Task string `yaml:"task"`
	// Model is "embedded" for the small model that comes with the program; "trained" for one that is trained on the texts
	// that prompts quote and kept in the user's cache folder; a Hugging Face folder; or a name that popri model get has fetched. It was trained on public text and is
	// the ε = 0 point of next_token. For classification it gets a new head, unless the folder has a trained one. Default "embedded"; "" is refused.
	Model string `yaml:"model"`
	// Steps is the number of updates. Default 500, the same for every training set that is compared; unused with epochs.
	Steps int `yaml:"steps"`
	// Epochs is the number of passes over the training texts, in place of steps: larger sets then take more updates.
	// Default 0: steps counts.
	Epochs int `yaml:"epochs"`
	// Batch is the number of texts of an update. Default 32.
	Batch int `yaml:"batch"`
	// MicroTexts is the number of texts in one forward and backward pass. Default 0: all of a batch, and the models of a
	// table are trained side by side, one a thread, which suits models of a few million parameters. With a number, the
	// passes of an update are computed side by side and the models one after another, which needs the memory of one; 8
	// suits DistilGPT2. Another number rounds differently.
	MicroTexts int `yaml:"micro_texts"`
	// Length is the number of tokens to which texts are cut in training and test. Default 64.
	Length int `yaml:"length"`
	// Rows is the form of a training or test row: "line", the end-of-text token, the text and a line's end, which is how the
	// small models that come with the program were trained; or "document", the tokenizer's begin-of-text token, the text
	// and the end-of-text token, as the POPri paper's DistilGPT2 is trained. Every token after the first one counts;
	// for classification, the last one is read (of BERT, the first one). Default "line".
	Rows string `yaml:"rows"`
	// LearningRates are AdamW's peak learning rates, above 0. Of several, each is tried for each training set, and the
	// validation clients choose. Default [5e-4].
	LearningRates []float64 `yaml:"learning_rates"`
	// Schedule is the course of the learning rate, under transformers' names: constant, which has no warm-up,
	// constant_with_warmup, linear or cosine (both to 0). Default "cosine".
	Schedule string `yaml:"schedule"`
	// WeightDecay is AdamW's decoupled weight decay. Default 0.01.
	WeightDecay float64 `yaml:"weight_decay"`
	// WarmupSteps is the number of first steps over which the learning rate rises from 0. Default 30.
	WarmupSteps int `yaml:"warmup_steps"`
	// MaxGradNorm is the gradient's L2 norm above which it is scaled down. Default 1; 0 does not clip.
	MaxGradNorm float64 `yaml:"max_grad_norm"`
	// Dropout is the share of activations that a training pass sets to 0, in the places of GPT-2. Default 0, because few
	// passes over the texts do not overfit; the POPri paper's DistilGPT2 has 0.1.
	Dropout float64 `yaml:"dropout"`
	// EvalEvery is the number of updates between two measurements on the validation clients, which choose the best step.
	// Default 100. 0, with epochs, measures after each epoch.
	EvalEvery int `yaml:"eval_every"`
	// Best is the figure of the validation clients that chooses the step: loss or accuracy. Default "loss", which varies
	// less.
	Best string `yaml:"best"`
}

// Eval says what the evaluation may use.
type Eval struct {
	// ReferencePrivate declares the train clients' text to be public or test data, so that a small model may be trained on
	// the text itself. This gives the table's ε = ∞ row and the share of the gap closed, which are exact functions of the
	// text and outside of ε. Default true, because the embedded default is published source code. The declaration holds for
	// the data.private of the same layer: a later layer (file, variable, --set) that names other private data withdraws
	// it, unless that layer declares it again. For a finished run, popri eval --reference-private declares it.
	ReferencePrivate bool `yaml:"reference_private"`
}

// Classification is the value of downstream.task for texts with labels.
const Classification = "classification"

// NeedsLabels reports whether public texts must have labels.
func (c Config) NeedsLabels() bool {
	return c.Generate.ByLabel || c.Downstream.Task == Classification
}

func (v *validator) downstream(d Downstream) {
	v.oneOf("downstream.task", d.Task, []string{"next_token", Classification})
	v.text("downstream.model", d.Model, `"embedded", "trained", a model folder or a name on the hub`)
	v.count("downstream.steps", d.Steps, 1, maxCount)
	v.count("downstream.epochs", d.Epochs, 0, maxCount)
	v.count("downstream.batch", d.Batch, 1, maxCount)
	v.count("downstream.micro_texts", d.MicroTexts, 0, maxCount)
	v.count("downstream.length", d.Length, 2, maxTokens)
	v.oneOf("downstream.rows", d.Rows, []string{"line", "document"})
	if len(d.LearningRates) == 0 {
		v.add("downstream.learning_rates", "is [], must hold one rate or more")
	}
	for i, rate := range d.LearningRates {
		v.above(fmt.Sprintf("downstream.learning_rates[%d]", i), rate, 0, 10)
	}
	v.oneOf("downstream.schedule", d.Schedule, []string{"constant", "constant_with_warmup", "linear", "cosine"})
	v.between("downstream.weight_decay", d.WeightDecay, 0, 10)
	v.count("downstream.warmup_steps", d.WarmupSteps, 0, maxCount)
	v.between("downstream.max_grad_norm", d.MaxGradNorm, 0, 1e6)
	v.between("downstream.dropout", d.Dropout, 0, 0.9)
	least := 1
	if d.Epochs > 0 {
		least = 0
	}
	v.count("downstream.eval_every", d.EvalEvery, least, maxCount)
	v.oneOf("downstream.best", d.Best, []string{"loss", "accuracy"})
}
