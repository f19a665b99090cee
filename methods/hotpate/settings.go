package hotpate

import (
	"popri/configs"
)

// Settings says how the method "hot_pate" writes: teachers, each a prompt of other clients' texts, vote for every token
// of a text, which is released if enough of them agree (Cohen et al. 2025). Teachers' distributions have
// generate.temperature. Each vote is a release, whether it gives a token or not, and a text has generate.max_new_tokens
// votes at most, so that trainer.rounds · texts · max_new_tokens releases are planned.
type Settings struct {
	// Texts is the number of texts of a round. Default 2. More share the same budget: the noise grows with the root of
	// the number of votes, and the teachers who must agree with the noise.
	Texts int `yaml:"texts" range:"[1, 2^30]"`
	// Teachers is the number of teachers, at most as many as there are clients, among whom the clients are divided at
	// random. Default 0: each client is one. A teacher of one client alone abstains without its texts, which moves one
	// count; with fewer teachers than clients, taking a client's texts away changes a vote, which moves two, so that
	// the noise is √2 times as much.
	Teachers int `yaml:"teachers" range:"[0, 2^30]"`
	// Ensemble is how many teachers must agree. "homogeneous": more than half, for clients who are divided at random
	// and write alike. "heterogeneous": as many as stand out from the noise (twice its bound L), and of the tokens for
	// which that is so, one is drawn in proportion to its count; for teachers that differ, such as single clients.
	// Default "homogeneous".
	Ensemble string `yaml:"ensemble" oneof:"homogeneous|heterogeneous"`
	// Coordinated makes all teachers vote with the same random numbers, which are public: teachers who agree about the
	// distribution agree about the token. Default true; false makes each vote by itself, which is PATE as it was
	// before, for comparison.
	Coordinated bool `yaml:"coordinated"`
	// OnFailure is what follows a vote without a token: "base" takes a token of the model itself, prompted with public
	// texts, which costs nothing; "repeat" votes again with other random numbers; "stop" ends the text. Default "base",
	// which always comes to an end of the text; with it, text on which no teachers agree is public text's.
	OnFailure string `yaml:"on_failure" oneof:"base|repeat|stop"`
}

var settings = configs.Register("hot_pate", Settings{Texts: 2, Ensemble: "homogeneous", Coordinated: true,
	OnFailure: "base"}, nil)

const (
	// examples is the number of texts of its clients that a teacher's prompt quotes, as many as generate.examples
	// quotes by default. More make teachers more alike, and slower.
	examples = 2
	// cacheBytes is the memory for keys and values of the teachers' prompts: 700 prompts of 256 tokens of SmolLM2-135M
	// in bfloat16. Prompts beyond it are read again for each token, which takes as long as hundreds of tokens.
	cacheBytes = 4 << 30
	// most is the most votes of a run, each a line of the ledger.
	most = 1 << 20
)

// checkRun reports what the method cannot do.
func checkRun(r *configs.Report, c configs.Config) {
	if s := settings.Of(c); float64(c.Trainer.Rounds)*float64(s.Texts)*float64(c.Generate.MaxNewTokens) > most {
		r.Add("hot_pate.texts", "is %d, which makes trainer.rounds · hot_pate.texts · generate.max_new_tokens more "+
			"than %d releases", s.Texts, most)
	}
	if settings.Of(c).Teachers > 0 && c.Data.Since != "" {
		r.Add("data.since", "is %q, must be empty where hot_pate.teachers is above 0: whether one client has such a text would "+
			"decide which clients are a teacher together", c.Data.Since)
	}
	r.Refuse(c, "where method is \"hot_pate\": all teachers vote each time, in this process, and no text has a label",
		"fed.clients", "aggregate.least", "fed.sampling", "privacy.unsafe_diagnostics", "generate.engine", "generate.by_label")
}
