package genetic

import (
	"popri/configs"
)

// Settings says how the method "genetic_eda" evolves a population of embeddings by the clients' votes, without
// training anything ("Generate Synthetic Text Approximating the Private Distribution with Differential Privacy").
type Settings struct {
	// Population is the number of public texts whose embeddings are the first population. Default 1000, the paper's.
	Population int `yaml:"population" range:"[2, 2^24]"`
	// Parents is the most individuals that a round selects. Default 30, the paper's. Noise grows with its root.
	Parents int `yaml:"parents" range:"[1, 2^16]"`
	// Selection is how individuals are selected. "limited_domain", the paper's: a list of those with the most votes, by
	// Gumbel noise, above a noisy threshold; it needs the exact counts in one place, so not two aggregators.
	// "gaussian": noise on all counts, as other methods have it, and those with the highest above its bound. Default
	// "limited_domain".
	Selection string `yaml:"selection" oneof:"limited_domain|gaussian"`
	// Decoder turns an embedding into a text. The paper trains an inverter of the encoder for it; both of these stand
	// in for that. "lookup": the nearest of the public texts and of those that the generator wrote before round 1.
	// "prompt": what the generator writes when it is shown the generate.examples nearest of these. Default "lookup".
	Decoder string `yaml:"decoder" oneof:"lookup|prompt"`
}

var settings = configs.Register("genetic_eda", Settings{Population: 1000, Parents: 30, Selection: limitedDomain,
	Decoder: "lookup"}, nil)

const limitedDomain = "limited_domain"

// children is the number of embeddings of each population but the first, three times the first's, as in the paper. More
// divide the votes among more.
func (s Settings) children() int { return 3 * s.Population }

// written is the number of texts that the generator writes before round 1, with prompts that quote public texts, for the
// decoder to choose from besides the public ones.
func (s Settings) written() int { return s.Population / 5 }

// domain is K, ten times the parents, as in the paper: only the individuals with the K highest counts can be selected.
func (s Settings) domain() int { return 10 * s.Parents }

// checkRun reports what the method needs of other settings, and cannot do.
func checkRun(r *configs.Report, c configs.Config) {
	if settings.Of(c).Decoder == "prompt" && c.Generate.Examples == 0 {
		r.Add("generate.examples", "is 0, must be 1 or more where genetic_eda.decoder is \"prompt\": it shows the nearest texts")
	}
	r.Refuse(c, "where method is \"genetic_eda\": its texts have no label, and nothing is trained", "generate.by_label")
	if selects(c) {
		r.Refuse(c, "where genetic_eda.selection is \"limited_domain\": it needs the exact counts of all clients in one "+
			"place (\"gaussian\" does not)", "fed.clients", "aggregate.least", "fed.sampling", "privacy.unsafe_diagnostics")
	}
}

// selects reports whether the clients are asked for a selection of counts, and never for a sum.
func selects(c configs.Config) bool { return settings.Of(c).Selection == limitedDomain }
