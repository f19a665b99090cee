package configs

// Downstream says how the synthetic set is evaluated: a small model is trained on it and tested on the private test
// clients.
type Downstream struct {
	// Model is "embedded" for the small model that comes with the program; "trained" for one that is trained on the texts
	// that prompts quote and kept in the user's cache folder; or a Hugging Face folder. It was trained on public text and is
	// the ε = 0 point. Default "embedded"; "" is refused.
	Model string `yaml:"model"`
	// Steps is the number of fine-tuning steps. Default 500, the same for every training set that is compared.
	Steps int `yaml:"steps"`
	// Batch is the number of texts of a step. Default 32.
	Batch int `yaml:"batch"`
	// Length is the number of tokens to which texts are cut in training and test. Default 64.
	Length int `yaml:"length"`
	// LearningRate is AdamW's peak learning rate. Default 5e-4.
	LearningRate float64 `yaml:"learning_rate"`
	// WeightDecay is AdamW's decoupled weight decay. Default 0.01.
	WeightDecay float64 `yaml:"weight_decay"`
	// WarmupSteps is the number of first steps over which the learning rate rises from 0. Default 30.
	WarmupSteps int `yaml:"warmup_steps"`
	// EvalEvery is the number of steps between two measurements of the validation loss, which chooses the best step.
	// Default 100.
	EvalEvery int `yaml:"eval_every"`
	// Bootstrap is the number of resamples of the test clients for the confidence intervals. Default 1000. Below 100 their
	// ends vary much from seed to seed; 0 leaves the intervals out.
	Bootstrap int `yaml:"bootstrap"`
}

// Eval says what the evaluation may use.
type Eval struct {
	// ReferencePrivate declares the train clients' text to be public or test data, so that a small model may be trained on
	// the text itself. This gives the table's ε = ∞ row and the share of the gap closed, which are exact functions of the
	// text and outside of ε. Default true, because the embedded default is published source code. The declaration holds for
	// the data.private of the same layer: a later layer (file, variable, --set) that names other private data withdraws
	// it, unless that layer declares it again.
	ReferencePrivate bool `yaml:"reference_private"`
}
