package configs

// GeneticEDA says how the method "genetic_eda" evolves a population of embeddings by the clients' votes, without
// training anything ("Generate Synthetic Text Approximating the Private Distribution with Differential Privacy").
type GeneticEDA struct {
	// Population is the number of public texts whose embeddings are the first population. Default 1000, the paper's.
	Population int `yaml:"population"`
	// Children is the number of embeddings of each later population, drawn from a normal distribution that the parents
	// describe. Default 3000, the paper's. More divide the votes among more.
	Children int `yaml:"children"`
	// Parents is the most individuals that a round selects. Default 30, the paper's. Noise grows with its root.
	Parents int `yaml:"parents"`
	// Domain is K: only the individuals with the K highest counts can be selected by "limited_domain". Default 300, the
	// paper's.
	Domain int `yaml:"domain"`
	// Selection is how individuals are selected. "limited_domain", the paper's: a list of those with the most votes, by
	// Gumbel noise, above a noisy threshold; it needs the exact counts in one place, so not two aggregators.
	// "gaussian": noise on all counts, as other methods have it, and those with the highest above its bound. Default
	// "limited_domain".
	Selection string `yaml:"selection"`
	// Decoder turns an embedding into a text. The paper trains an inverter of the encoder for it; both of these stand
	// in for that. "lookup": the nearest of the public texts and of those that the generator wrote before round 1.
	// "prompt": what the generator writes when it is shown the generate.examples nearest of these. Default "lookup".
	Decoder string `yaml:"decoder"`
	// Written is the number of texts that the generator writes before round 1, with prompts that quote public texts,
	// for the decoder to choose from beside the public ones. Default 200; 0 is none.
	Written int `yaml:"written"`
	// Perplexity is H: texts whose perplexity for the generator is as high are no parents. Default 0, no bound, because
	// perplexities depend on the model; the paper has 50, by GPT-2.
	Perplexity float64 `yaml:"perplexity"`
	// Keep says which parents' texts are the product: those of the "last" round that has some, as in the paper, or of
	// "all" rounds, which costs nothing more. Default "all": 30 texts are few for training a model, though enough for
	// examples in a prompt.
	Keep string `yaml:"keep"`
}

// Selects reports whether the clients are asked for a selection of counts, and never for a sum.
func (c Config) Selects() bool {
	return c.Method == "genetic_eda" && c.GeneticEDA.Selection == "limited_domain"
}

// SelectionSlack is the δ of each selection's threshold. Half of the budget's δ goes to those of all rounds.
func (c Config) SelectionSlack() float64 {
	if !c.Selects() {
		return 0
	}
	return c.Privacy.Delta / float64(2*c.Trainer.Rounds)
}

// genetic checks the section genetic_eda, and what its method cannot do.
func (v *validator) genetic(c Config) {
	g := c.GeneticEDA
	v.count("genetic_eda.population", g.Population, 2, 1<<24)
	v.count("genetic_eda.children", g.Children, 2, 1<<24)
	v.count("genetic_eda.parents", g.Parents, 1, 1<<16)
	v.count("genetic_eda.domain", g.Domain, 1, 1<<24)
	v.count("genetic_eda.written", g.Written, 0, maxCount)
	v.between("genetic_eda.perplexity", g.Perplexity, 0, 1e9)
	v.oneOf("genetic_eda.selection", g.Selection, selections)
	v.oneOf("genetic_eda.decoder", g.Decoder, decoders)
	v.oneOf("genetic_eda.keep", g.Keep, keeps)
	if g.Parents > g.Domain {
		v.add("genetic_eda.parents", "is %d, must be at most genetic_eda.domain, which is %d", g.Parents, g.Domain)
	}
	if c.Method != "genetic_eda" {
		return
	}
	if g.Decoder == "prompt" && c.Generate.Examples == 0 {
		v.add("generate.examples",
			"is 0, must be 1 or more where genetic_eda.decoder is \"prompt\": it shows the nearest texts")
	}
	for key, wrong := range map[string]bool{"generate.by_label": c.Generate.ByLabel,
		"privacy.unsafe_ceiling": c.Privacy.UnsafeCeiling} {
		if wrong {
			v.add(key,
				"is true, must be false where method is \"genetic_eda\": its texts have no label, and nothing is "+
					"trained")
		}
	}
	if !c.Selects() {
		return
	}
	for key, wrong := range map[string]bool{"fed.clients": c.Fed.Elsewhere(), "aggregate.least": c.Aggregate.Least > 0,
		"fed.sampling": c.Fed.Sampling != "full", "privacy.unsafe_diagnostics": c.Privacy.UnsafeDiagnostics} {
		if wrong {
			value, _ := c.Get(key)
			v.add(key,
				"is %v, must be as in the preset demo where genetic_eda.selection is \"limited_domain\": it needs "+
					"the exact counts of all clients in one place (\"gaussian\" does not)", value)
		}
	}
}

var (
	selections = []string{"limited_domain", "gaussian"}
	decoders   = []string{"lookup", "prompt"}
	keeps      = []string{"all", "last"}
)
