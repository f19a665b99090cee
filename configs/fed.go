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
	n, sampling := c.Fed.ClientsPerRound, c.Fed.Sampling
	v.addIf(sampling == "full" && n > 0, "fed.clients_per_round",
		"is %d, must be 0 (all clients) where fed.sampling is \"full\"", n)
	v.addIf(sampling != "full" && n == 0 && slices.Contains(Choices("fed.sampling"), sampling), "fed.clients_per_round",
		"is 0, must be the size of a cohort where fed.sampling is %q", sampling)
}

// aggregate checks the section aggregate.
func (v *Report) aggregate(c Config) {
	if p := c.Aggregate.Available; p < 1 && (c.Aggregate.Least == 0 || c.Fed.Elsewhere()) {
		v.Add("aggregate.available", "is %g, must be 1 unless clients behind aggregators are simulated: "+
			"aggregate.least above 0, fed.clients 0", p)
	}
	n := c.Aggregate.Least
	if n == 0 {
		v.addIf(c.Aggregate.Proof == "range", "aggregate.proof",
			"is \"range\", must be \"none\" where aggregate.least is 0: there are no aggregators")
		return
	}
	const where = "where aggregate.least is above 0"
	v.addIf(n < 2 || c.Fed.Elsewhere() && n > c.Fed.Clients, "aggregate.least",
		"is %d, must be 2 or more, and at most fed.clients", n)
	v.addIf(c.Fed.Sampling == "fixed", "fed.sampling",
		"is \"fixed\", must be \"full\" or \"poisson\" %s: each client's own coin decides", where)
	v.addIf(c.Privacy.UnsafeDiagnostics, "privacy.unsafe_diagnostics", "is set, must not be %s", where)
}

// elsewhere checks fed.clients, and refuses what needs the train clients' texts where the run does not read them.
func (v *Report) elsewhere(c Config) {
	if !c.Fed.Elsewhere() {
		v.addIf(c.Data.Private == None, "data.private",
			"is %q, which needs fed.clients above 0: the clients are elsewhere", None)
		return
	}
	const where = "where fed.clients is above 0"
	const unseen = "is set, must not be %s: the run does not see the train clients' texts"
	v.addIf(c.Data.TrainClients > 0, "data.train_clients", "is %d, must be 0 %s: the clients are elsewhere",
		c.Data.TrainClients, where)
	v.addIf(c.Aggregate.Least == 0, "aggregate.least",
		"is 0, must be 2 or more %s: two aggregators sum up what they report", where)
	v.addIf(c.Privacy.UnsafeDiagnostics, "privacy.unsafe_diagnostics", unseen, where)
	v.addIf(c.Eval.ReferencePrivate, "eval.reference_private", unseen, where)
}
