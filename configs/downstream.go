package configs

// Downstream says how the synthetic set is evaluated: a small model is trained on it and tested on the private test
// clients.
type Downstream struct {
	// Task is what the small model learns: "next_token", to write text like its training text; or "classification",
	// to give a text its label, judged by accuracy and macro F1. The latter needs labelled texts: the column label of
	// data.private and data.public, and generate.by_label for the synthetic set. Its ε = 0 point is the same model
	// trained on the public text. Default "next_token".
	Task string `yaml:"task" oneof:"next_token|classification"`
	// Model is "embedded" for the small model that comes with the program, or "trained" for one that is trained on
	// the texts that prompts quote and kept in the user's cache folder. Otherwise it is a Hugging Face folder, or a
	// name that popri model get has fetched. It was trained on public text and is the ε = 0 point of next_token. For
	// classification it gets a new head, unless the folder has a trained one. Default "embedded"; "" is refused.
	Model string `yaml:"model"`
	// Adapter is "none" to train all weights of the small model, or "lora" to train adapters of rank 8 on all its
	// projections. RUN/small/adapter then has the change alone, in PEFT's format, for devices that have
	// the model already; RUN/small is the model with it. It needs a higher learning rate. Default "none".
	Adapter string `yaml:"adapter" oneof:"none|lora"`
	// Steps is the number of updates. Default 500, the same for every training set that is compared; unused with
	// epochs.
	Steps int `yaml:"steps" range:"[1, 2^30]"`
	// Epochs is the number of passes over the training texts, in place of steps: larger sets then take more updates.
	// Default 0: steps counts.
	Epochs int `yaml:"epochs" range:"[0, 2^30]"`
	// Batch is the number of texts of an update. Default 32.
	Batch int `yaml:"batch" range:"[1, 2^30]"`
	// MicroTexts is the number of texts in one forward and backward pass. With a number, the passes of an update are
	// computed side by side and the models one after another, which needs the memory of one. Default 0: 16 for a small
	// model of 20 million parameters or more; for a smaller one all of a batch, and the models of a table are trained
	// side by side, one a thread. Another number rounds differently.
	MicroTexts int `yaml:"micro_texts" range:"[0, 2^30]"`
	// Length is the number of tokens to which texts are cut in training and test. Default 64.
	Length int `yaml:"length" range:"[2, 2^20]"`
	// Recipe says how the small model is trained otherwise. "brief", for few passes over the texts: rows of
	// end-of-text, text and line end, a warm-up of 6 % and a cosine, decay 0.01, clipping to 1. "pretrained", for a
	// pretrained model: rows of begin-of-text, text and end-of-text, a warm-up of 10 %, otherwise as before. There
	// 256 validation texts choose the step, 1000 test texts judge, and three measurements without improvement end the
	// training. "distilgpt2", as in the POPri paper: a constant rate, no decay, no clipping, dropout 0.1. "bert", as
	// in Aug-PE: the same dropout, a linear schedule, decay 0.01, clipping to 1. Tokens after a row's first count;
	// classification reads the last one (BERT: the first). Default "brief".
	Recipe string `yaml:"recipe"`
	// LearningRates are AdamW's peak learning rates, above 0. Of several, each is tried for each training set, and the
	// validation clients choose. Default [5e-4].
	LearningRates []float64 `yaml:"learning_rates" range:"(0, 10]"`
	// Trainings is the number of trainings on each text, which differ in the order of the rows and the first weights of
	// adapters. Figures are their means, intervals also count how trainings differ, and RUN/small is the first one.
	// Default 1: of a pretrained small model, two trainings on one text differ by up to 1.5 points of accuracy.
	Trainings int `yaml:"trainings" range:"[1, 100]"`
	// EvalEvery is the number of updates between two measurements on the validation clients, which choose the best
	// step. Default 100. 0, with epochs, measures after each epoch.
	EvalEvery int `yaml:"eval_every" range:"[0, 2^30]"`
	// Best is the figure of the validation clients that chooses the step: loss or accuracy. Default "loss", which
	// varies less.
	Best string `yaml:"best" oneof:"loss|accuracy"`
}

// Recipe is what downstream.recipe stands for.
type Recipe struct {
	Rows        string  // form of a row: "line" or "document"
	Schedule    string  // of the learning rate, under transformers' names
	Warmup      float64 // share of the updates over which the learning rate rises from 0
	WeightDecay float64 // AdamW's
	MaxGradNorm float64 // L2 norm above which the gradient is scaled down; 0 does not clip
	Dropout     float64 // rate of dropout, where GPT-2 has it
	// Measured is the number of validation texts that choose the step, and Tested the number of test texts that judge
	// the model, each drawn by the seed; 0 takes all.
	Measured, Tested int
	// Patience is the number of measurements without a better one after which training ends; 0 trains to the end.
	Patience int
}

var recipes = map[string]Recipe{
	"brief": {Rows: "line", Schedule: "cosine", Warmup: 0.06, WeightDecay: 0.01, MaxGradNorm: 1},
	"pretrained": {Rows: "document", Schedule: "cosine", Warmup: 0.1, WeightDecay: 0.01, MaxGradNorm: 1,
		Measured: 256, Tested: 1000, Patience: 3},
	"distilgpt2": {Rows: "document", Schedule: "constant", Dropout: 0.1},
	"bert":       {Rows: "document", Schedule: "linear", WeightDecay: 0.01, MaxGradNorm: 1, Dropout: 0.1},
}

// Training is the recipe by which the small model is trained.
func (d Downstream) Training() Recipe { return recipes[d.Recipe] }

// Eval says what the evaluation may use.
type Eval struct {
	// ReferencePrivate declares the train clients' text to be public or test data, so that a small model may be trained
	// on the text itself. This gives the table's ε = ∞ row and the share of the gap closed, which are exact functions
	// of the text and outside of ε. Default true, because the embedded default is published source code. The
	// declaration holds for the data.private of the same layer: a later layer (file, variable, --set) that names other
	// private data withdraws it, unless that layer declares it again. For a finished run, popri eval
	// --reference-private declares it.
	ReferencePrivate bool `yaml:"reference_private"`
}

// Classification is the value of downstream.task for texts with labels.
const Classification = "classification"

// NeedsLabels reports whether public texts must have labels.
func (c Config) NeedsLabels() bool { return c.Generate.ByLabel || c.Downstream.Task == Classification }

func (v *Report) downstream(c Config) {
	d := c.Downstream
	v.Text("downstream.model", d.Model, `"embedded", "trained", a model folder or a name on the hub`)
	v.addIf(d.Adapter == "lora" && d.Task == Classification, "downstream.adapter",
		"is %q, must be \"none\" where downstream.task is %q, whose head is new", d.Adapter, d.Task)
	v.addIf(len(d.LearningRates) == 0, "downstream.learning_rates", "is [], must hold one rate or more")
	v.addIf(d.EvalEvery == 0 && d.Epochs == 0, "downstream.eval_every",
		"is 0, must be at least 1 where downstream.epochs is 0")
}
