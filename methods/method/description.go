package method

import (
	"cmp"

	"popri/configs"
	"popri/methods/rounds"
	"popri/show/series"
)

// Description is how a method describes itself. The rest of the program asks it, and knows no method by name.
type Description struct {
	configs.Method // its name, which is the key of the synthetic set's row in evaluations, too, and its checks
	Clients
	Words
	// Further gives the settings with which clients train the small model of a finished run further; nil if the method does not.
	Further func(run string) []string
	// Needs are what a run provides for the method under a configuration; nil is nothing besides the [Env].
	Needs func(configs.Config) Needs
	// New makes the method.
	New func(Env) (rounds.Method, error)
	// Series are the figures and pictures of its rounds.
	Series series.Set
	// Cost is the work of a run under a configuration; nil is the work of the synthetic set's texts.
	Cost func(configs.Config) Cost
	// Pairs says that the method makes preference pairs and follows dpo.best, by which the synthetic set may depend on
	// validation clients.
	Pairs bool
	// Mixes says that the synthetic set can have public and written texts, of which synthetic.mix chooses.
	Mixes bool
}

// Clients is what clients are asked for under a configuration.
type Clients struct {
	// Query is the name of the question, and the norm bound of the clients' vectors.
	Query func(configs.Config) (name string, bound float64)
	// First is the same of round 1 where it asks something else; nil if it does not.
	First func(configs.Config) (name string, bound float64)
	// Rounds is the number of rounds; nil is trainer.rounds.
	Rounds func(configs.Config) int
	// Releases is how often clients are asked; nil is once in each round.
	Releases func(configs.Config) int
	// Selection describes what is released where it is the largest of the clients' counts, chosen by noise; nil, or
	// without a value, is the noised sum.
	Selection func(configs.Config) *Selection
	// Traffic is what a client sends and receives.
	Traffic func(configs.Config) Traffic
}

// Selection is a release of which individuals have the largest counts.
type Selection struct {
	Picks int     // individuals that are released at most
	Slack float64 // δ of the release's threshold
}

// Words are what pages say of a method.
type Words struct {
	// Title is the method's name, and About what it does, as the rest of a sentence about it.
	Title, About string
	// Work describes a round: "200 prompts × 10 samples".
	Work func(configs.Config) string
	// Denoise says how noise is removed from a release; nil if it is not removed.
	Denoise func(configs.Config) string
	// Product says how the synthetic set's texts were made, Untuned how the texts of the untuned model differ from them;
	// "" is that its prompts quote public texts.
	Product, Untuned string
	// Publishes says what the run gives away, before it; nil is a synthetic set of texts that the tuned model writes.
	Publishes func(configs.Config) string
	// Notes are sentences for the report about the reading of releases; nil for none.
	Notes func(configs.Config) []string
	// Paper is the method's paper as BibTeX, for reports; "" for none.
	Paper string
}

// Needs are what a run provides for a method.
type Needs struct {
	Texts    bool      // clients answer by each text's embedding instead of their mean
	Labels   bool      // and by their texts' labels
	Meaning  bool      // embeddings have no form and words next to them, whatever scoring.form and scoring.words are
	Small    bool      // [Given].Small: clients train the small model
	Topics   bool      // [Given].Topics: clients count their texts' topics, too, and train on texts behind their topics' keywords
	Counts   bool      // or they count tokens and pairs of them, as that model's tokenizer has them
	Rank     int       // of the adapter that they train in place of all its weights; 0 for none
	Rows     int       // of a client's texts that it trains on in a round; 0 for all
	Kinds    bool      // [Given].Kinds
	Teachers *Teachers // clients' texts are prompts of teachers who vote for tokens; nil if not
	Models   []Model   // the folders of further models, on which results depend
}

// Teachers says how clients become teachers.
type Teachers struct {
	Key        string // of the setting with their number
	Number     int    // 0: each client is one
	Examples   int    // texts of its clients that a teacher's prompt quotes
	CacheBytes int64  // for keys and values of the prompts
}

// Model is a model that a setting names.
type Model struct {
	Key  string // of the setting
	Path string
	Name string // what "embedded" stands for
}

// Cost is the work of a run, for plans.
type Cost struct {
	Samples int // texts that the model writes in all rounds
	Shared  int // of them, those that share a prompt
	Product int // texts that the model writes at the end
	Pairs   int // at most
	// Trained is the number of tokens that the adapters are trained on.
	Trained int
}

// PromptTokens is the longest prompt's length in tokens that costs count with.
func PromptTokens(c configs.Config) int { return max(1, c.Generate.Examples) * c.Data.MaxTokens }

// Complete fills what a description may leave out.
func (d Description) Complete() Description {
	d.Untuned = cmp.Or(d.Untuned, "same generator, prompts that quote public texts")
	if d.Rounds == nil {
		d.Rounds = func(c configs.Config) int { return c.Trainer.Rounds }
	}
	if d.Releases == nil {
		d.Releases = d.Rounds
	}
	if d.Selection == nil {
		d.Selection = func(configs.Config) *Selection { return nil }
	}
	if d.Needs == nil {
		d.Needs = func(configs.Config) Needs { return Needs{} }
	}
	if d.Cost == nil {
		d.Cost = func(c configs.Config) Cost { return Cost{Shared: 1, Product: c.Synthetic.Texts} }
	}
	return d
}

// ChoosesMix reports whether validation clients choose the synthetic set's mix under a configuration.
func (d Description) ChoosesMix(c configs.Config) bool {
	return d.Mixes && c.Synthetic.Mix == "validated" && c.Synthetic.PublicTexts > 0
}
