package configs

import "slices"

// Shards is the value of fed.collect for clients that are elsewhere, and None the value of data.private for a run without any
// client's text.
const (
	Shards = "shards"
	None   = "none"
)

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

// shards checks fed.collect and fed.clients, and refuses what cannot be exact if the clients are elsewhere.
func (v *validator) shards(c Config) {
	v.oneOf("fed.collect", c.Fed.Collect, collections)
	v.count("fed.clients", c.Fed.Clients, 0, maxCount)
	if c.Fed.Collect == Shards && c.Data.TrainClients > 0 {
		v.add("data.train_clients", "is %d, must be 0 where fed.collect is \"shards\": the clients are elsewhere", c.Data.TrainClients)
	}
	if c.Fed.Collect != Shards {
		if c.Fed.Clients > 0 {
			v.add("fed.clients", "is %d, must be 0 where fed.collect is %q: the clients of data.private are counted", c.Fed.Clients,
				c.Fed.Collect)
		}
		if c.Data.Private == None {
			v.add("data.private", "is %q, which needs fed.collect %q", None, Shards)
		}
		return
	}
	if c.Fed.Clients == 0 {
		v.add("fed.clients", "is 0, must be the number of train clients of all shards where fed.collect is %q", Shards)
	}
	if s := c.Fed.Sampling; s != "full" && slices.Contains(samplings, s) {
		v.add("fed.sampling", "is %q, must be \"full\" where fed.collect is %q: who was drawn must stay secret, so no shard may know it", s, Shards)
	}
	if f := c.Scoring.Features; f != "mean" && slices.Contains(features, f) {
		v.add("scoring.features", "is %q, must be \"mean\" where fed.collect is %q: features do not travel with a question", f, Shards)
	}
	for key, set := range map[string]bool{"privacy.continues": c.Privacy.Continues != "",
		"privacy.unsafe_diagnostics": c.Privacy.UnsafeDiagnostics, "privacy.unsafe_ceiling": c.Privacy.UnsafeCeiling,
		"eval.reference_private": c.Eval.ReferencePrivate} {
		if set {
			v.add(key, "is set, must not be where fed.collect is %q: the run does not see the train clients' texts", Shards)
		}
	}
}
