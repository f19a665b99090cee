package configs

import "slices"

// None is the value of data.private for a run without any client's text.
const None = "none"

// Elsewhere reports whether the train clients answer on other machines, behind two aggregators. The run reads none of
// their texts then.
func (f Fed) Elsewhere() bool { return f.Clients > 0 }

// fed checks the section fed.
func (v *Report) fed(c Config) {
	v.elsewhere(c)
	v.aggregate(c)
	if c.Fed.Sampling == "full" && c.Fed.ClientsPerRound > 0 {
		v.Add("fed.clients_per_round", "is %d, must be 0 (all clients) where fed.sampling is \"full\"",
			c.Fed.ClientsPerRound)
	}

	if c.Fed.Sampling != "full" && c.Fed.ClientsPerRound == 0 && slices.Contains(Choices("fed.sampling"), c.Fed.Sampling) {
		v.Add("fed.clients_per_round", "is 0, must be the size of a cohort where fed.sampling is %q", c.Fed.Sampling)
	}
}

// aggregate checks the section aggregate.
func (v *Report) aggregate(c Config) {
	if p := c.Aggregate.Available; p < 1 && (c.Aggregate.Least == 0 || c.Fed.Elsewhere()) {
		v.Add("aggregate.available", "is %g, must be 1 unless clients behind aggregators are simulated: "+
			"aggregate.least above 0, fed.clients 0", p)
	}
	if c.Aggregate.Least == 0 {
		if c.Aggregate.Proof == "range" {
			v.Add("aggregate.proof", "is \"range\", must be \"none\" where aggregate.least is 0: there are no aggregators")
		}
		return
	}
	const where = "where aggregate.least is above 0"
	if n := c.Aggregate.Least; n < 2 || c.Fed.Elsewhere() && n > c.Fed.Clients {
		v.Add("aggregate.least", "is %d, must be 2 or more, and at most fed.clients", n)
	}
	if c.Fed.Sampling == "fixed" {
		v.Add("fed.sampling", "is \"fixed\", must be \"full\" or \"poisson\" %s: each client's own coin decides", where)
	}
	if c.Privacy.UnsafeDiagnostics {
		v.Add("privacy.unsafe_diagnostics", "is set, must not be %s", where)
	}
}

// elsewhere checks fed.clients, and refuses what needs the train clients' texts where the run does not read them.
func (v *Report) elsewhere(c Config) {
	if !c.Fed.Elsewhere() {
		if c.Data.Private == None {
			v.Add("data.private", "is %q, which needs fed.clients above 0: the clients are elsewhere", None)
		}
		return
	}
	const where = "where fed.clients is above 0"
	if n := c.Data.TrainClients; n > 0 {
		v.Add("data.train_clients", "is %d, must be 0 %s: the clients are elsewhere", n, where)
	}
	if c.Aggregate.Least == 0 {
		v.Add("aggregate.least", "is 0, must be 2 or more %s: two aggregators sum up what they report", where)
	}
	for key, set := range map[string]bool{"privacy.unsafe_diagnostics": c.Privacy.UnsafeDiagnostics,
		"eval.reference_private": c.Eval.ReferencePrivate} {
		if set {
			v.Add(key, "is set, must not be %s: the run does not see the train clients' texts", where)
		}
	}
}
