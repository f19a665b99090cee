package configs

import "slices"

// None is the value of data.private for a run without any client's text.
const None = "none"

// Elsewhere reports whether the train clients are in shards, of which the run reads none.
func (f Fed) Elsewhere() bool { return f.Clients > 0 }

// fed checks the section fed.
func (v *validator) fed(c Config) {
	v.shards(c)
	v.oneOf("fed.sampling", c.Fed.Sampling, samplings)
	v.count("fed.clients_per_round", c.Fed.ClientsPerRound, 0, maxCount)
	if c.Fed.Sampling == "full" && c.Fed.ClientsPerRound > 0 {
		v.add("fed.clients_per_round", "is %d, must be 0 (all clients) where fed.sampling is \"full\"", c.Fed.ClientsPerRound)
	}

	if c.Fed.Sampling != "full" && c.Fed.ClientsPerRound == 0 && slices.Contains(samplings, c.Fed.Sampling) {
		v.add("fed.clients_per_round", "is 0, must be the size of a cohort where fed.sampling is %q", c.Fed.Sampling)
	}
}

// shards checks fed.clients, and refuses what cannot be exact if the clients are elsewhere.
func (v *validator) shards(c Config) {
	v.count("fed.clients", c.Fed.Clients, 0, maxCount)
	if !c.Fed.Elsewhere() {
		if c.Data.Private == None {
			v.add("data.private", "is %q, which needs fed.clients above 0: the clients are elsewhere", None)
		}
		return
	}
	const where = "where fed.clients is above 0"
	if n := c.Data.TrainClients; n > 0 {
		v.add("data.train_clients", "is %d, must be 0 %s: the clients are elsewhere", n, where)
	}
	if s := c.Fed.Sampling; s != "full" && slices.Contains(samplings, s) {
		v.add("fed.sampling", "is %q, must be \"full\" %s: who was drawn must stay secret, so no shard may know it", s, where)
	}
	if c.Scoring.Form > 0 {
		v.add("scoring.form", "is %v, must be 0 %s: the encoder that answers there embeds meanings alone", c.Scoring.Form, where)
	}
	for key, set := range map[string]bool{"privacy.continues": c.Privacy.Continues != "",
		"privacy.unsafe_diagnostics": c.Privacy.UnsafeDiagnostics, "privacy.unsafe_ceiling": c.Privacy.UnsafeCeiling,
		"eval.reference_private": c.Eval.ReferencePrivate} {
		if set {
			v.add(key, "is set, must not be %s: the run does not see the train clients' texts", where)
		}
	}
}
