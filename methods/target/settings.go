package target

import (
	"cmp"

	"popri/configs"
)

// Settings says which public texts are taken to be the most relevant to the clients, and how often each: as the
// synthetic set of the method "public_selection", and in "popri" for prompts and a part of the set. The
// clients are asked once, for their mean embedding (norm bound scoring.clip_norm).
type Settings struct {
	// Texts is the number of candidates, the public texts of the highest relevance. Default 9000; more are less like
	// the clients' texts, and fewer repeat more often in the small model's training.
	Texts int `yaml:"texts" range:"[1, 2^30]"`
	// Weights says how candidates are weighted. "matched" changes the weights as little as possible so that the
	// candidates' mean embedding agrees with the clients' up to the noise. If weights that stay spread over 1000
	// texts cannot agree, they come as close as they can. "prior" changes nothing: the most relevant 7 of 18
	// candidates have three times the weight of the others. Default "matched".
	Weights string `yaml:"weights" oneof:"matched|prior"`
}

var settings = configs.Register("public_selection", Settings{Texts: 9000, Weights: "matched"}, nil)

// Candidates is the number of public texts that are weighted under a configuration.
func Candidates(c configs.Config) int { return settings.Of(c).Texts }

// AllRows is the number of rows that are drawn by weight where public texts alone are the synthetic set: a text occurs
// its fraction of them, rounded up or down. They are the rows of 500 steps of 32 in the small model's training; more rows
// would only round the shares less.
const AllRows = 16000

// RowsOf is the number of rows of a product of public texts alone under a configuration.
func RowsOf(c configs.Config) int { return cmp.Or(c.Synthetic.PublicTexts, AllRows) }

// head is the number of the most relevant candidates, with three times the others' weight before weights are matched.
func head(candidates int) int { return candidates * 7 / 18 }

// effective is the least effective number of texts, 1/Σ weight², that matched weights leave of the candidates: 1000,
// with which the default's rows repeat a text 16 times on average, as often as the small model bears; or half of few
// candidates.
func effective(candidates int) int { return min(1000, max(1, candidates/2)) }
