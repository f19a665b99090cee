package configs

// HotPATE says how the method "hot_pate" writes: teachers, each a prompt of other clients' texts, vote for every token
// of a text, which is released if enough of them agree (Cohen et al. 2025). Teachers' distributions have
// generate.temperature. Each vote is a release, whether it gives a token or not, and a text has generate.max_new_tokens
// votes at most, so that trainer.rounds · texts · max_new_tokens releases are planned.
type HotPATE struct {
	// Texts is the number of texts of a round. Default 2. More share the same budget: the noise grows with the root of
	// the number of votes, and the teachers who must agree with the noise.
	Texts int `yaml:"texts"`
	// Teachers is the number of teachers, at most as many as there are clients, among whom the clients are divided at
	// random. Default 0: each client is one. A teacher of one client alone abstains without its texts, which moves one
	// count; with fewer teachers than clients, taking a client's texts away changes a vote, which moves two, so that
	// the noise is √2 times as much.
	Teachers int `yaml:"teachers"`
	// Examples is the number of texts of its clients that a teacher's prompt quotes. Default 2, as many as
	// generate.examples quotes. More make teachers more alike, and slower.
	Examples int `yaml:"examples"`
	// Ensemble is how many teachers must agree. "homogeneous": more than half, for clients who are divided at random
	// and write alike. "heterogeneous": as many as stand out from the noise (twice its bound L), and of the tokens for
	// which that is so, one is drawn in proportion to its count; for teachers that differ, such as single clients.
	// Default "homogeneous".
	Ensemble string `yaml:"ensemble"`
	// Coordinated makes all teachers vote with the same random numbers, which are public: teachers who agree about the
	// distribution agree about the token. Default true; false makes each vote by itself, which is PATE as it was
	// before, for comparison.
	Coordinated bool `yaml:"coordinated"`
	// OnFailure is what follows a vote without a token: "base" takes a token of the model itself, prompted with public
	// texts, which costs nothing; "repeat" votes again with other random numbers; "stop" ends the text. Default "base",
	// which always comes to an end of the text; with it, text on which no teachers agree is public text's.
	OnFailure string `yaml:"on_failure"`
	// CacheGiB is the memory for keys and values of the teachers' prompts, in GiB. Default 4. Prompts beyond it are read
	// anew for each token, which takes as long as hundreds of tokens. A token of a prompt needs layers · 2 · kv_heads ·
	// head_dim values: a prompt of 256 tokens takes 6 MB of SmolLM2-135M in bfloat16.
	CacheGiB int `yaml:"cache_gib"`
}

// Votes reports whether the clients' texts are prompts of teachers who vote for tokens.
func (c Config) Votes() bool { return c.Method == "hot_pate" }

// hotPATE checks the section hot_pate, and what its method cannot do.
func (v *validator) hotPATE(c Config) {
	h := c.HotPATE
	v.count("hot_pate.texts", h.Texts, 1, maxCount)
	v.count("hot_pate.teachers", h.Teachers, 0, maxCount)
	v.count("hot_pate.examples", h.Examples, 1, 1000)
	v.count("hot_pate.cache_gib", h.CacheGiB, 1, 1<<20)
	v.oneOf("hot_pate.ensemble", h.Ensemble, ensembles)
	v.oneOf("hot_pate.on_failure", h.OnFailure, failures)
	if !c.Votes() {
		return
	}
	if most := 1 << 20; c.Trainer.Rounds*h.Texts*c.Generate.MaxNewTokens > most {
		v.add("hot_pate.texts",
			"is %d, which makes trainer.rounds · hot_pate.texts · generate.max_new_tokens more than %d releases",
			h.Texts, most)
	}
	for key, wrong := range map[string]bool{"fed.clients": c.Fed.Elsewhere(), "aggregate.least": c.Aggregate.Least > 0,
		"fed.sampling": c.Fed.Sampling != "full", "privacy.unsafe_diagnostics": c.Privacy.UnsafeDiagnostics,
		"privacy.unsafe_ceiling": c.Privacy.UnsafeCeiling, "generate.engine": c.Generate.Server() != "",
		"generate.by_label": c.Generate.ByLabel} {
		if wrong {
			value, _ := c.Get(key)
			v.add(key,
				"is %v, must be as in the preset demo where method is \"hot_pate\": all teachers vote each time, in "+
					"this process, and no text has a label", value)
		}
	}
}

var (
	ensembles = []string{"homogeneous", "heterogeneous"}
	failures  = []string{"base", "repeat", "stop"}
)
