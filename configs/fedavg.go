package configs

import "slices"

// FedAvg says how clients train the small model (downstream.model) in the methods "dp_fedavg" and "dp_ftrl", and how
// the server applies their updates. A client trains on its own texts as rows of begin, tokens and end, cut to
// downstream.length, and answers with the change of all weights, as one vector that is clipped to a norm.
type FedAvg struct {
	// LearningRate is that of a client's plain stochastic gradient descent. Default 0.03, in the middle of the 0.01 to
	// 0.06 that the POPri paper tunes over; choose it on validation clients.
	LearningRate float64 `yaml:"learning_rate"`
	// LocalEpochs is the number of passes of a client over its texts in a round. Default 1; more let the update grow
	// and let clients drift apart.
	LocalEpochs int `yaml:"local_epochs"`
	// Batch is the number of texts of a client's step. Default 2, the paper's.
	Batch int `yaml:"batch"`
	// ClipNorm is the L2 norm above which a client's update is scaled down: the sensitivity. The noise of a weight is a
	// multiple of it. Default 0.1; the paper tunes over 0.01 to 0.4. Smaller cuts off what clients have learnt, larger
	// adds noise.
	ClipNorm float64 `yaml:"clip_norm"`
	// ServerLearningRate multiplies the mean of the updates before it is added to the weights. Default 1, plain
	// averaging.
	ServerLearningRate float64 `yaml:"server_learning_rate"`
	// Momentum is the server's: the part of its last step (dp_ftrl: of its sum of steps) that is added to the next.
	// Default 0. It is computed from releases and costs no privacy.
	Momentum float64 `yaml:"momentum"`
}

// Learns reports whether the method trains the small model itself at the clients. Its product is that model, and no
// text.
func (c Config) Learns() bool { return slices.Contains(learning, c.Method) }

// fedAvg checks the section fedavg, and what its methods cannot do.
func (v *validator) fedAvg(c Config) {
	f := c.FedAvg
	v.above("fedavg.learning_rate", f.LearningRate, 0, 100)
	v.count("fedavg.local_epochs", f.LocalEpochs, 1, 1000)
	v.count("fedavg.batch", f.Batch, 1, maxCount)
	v.above("fedavg.clip_norm", f.ClipNorm, 0, 1e6)
	v.above("fedavg.server_learning_rate", f.ServerLearningRate, 0, 1e3)
	if m := f.Momentum; !(m >= 0 && m < 1) {
		v.add("fedavg.momentum", "is %v, must be at least 0 and below 1", m)
	}
	if c.Fed.Sampling == "tree" && c.Method != "dp_ftrl" {
		v.add("fed.sampling",
			"is \"tree\", which needs the method \"dp_ftrl\": the nodes of a tree are sums of model updates")
	}
	if !c.Learns() {
		if c.Trainer.Select == "validation" {
			v.add("trainer.select", "is \"validation\", which needs a method that trains the small model: %q", learning)
		}
		return
	}
	if s := c.Fed.Sampling; c.Method == "dp_ftrl" && (s == "poisson" || s == "fixed") {
		v.add("fed.sampling",
			"is %q, must be \"full\" or \"tree\" where method is \"dp_ftrl\": a tree has each client in one leaf, and "+
				"gains nothing by sampling", s)
	}
	for key, wrong := range map[string]bool{"fed.clients": c.Fed.Elsewhere(), "aggregate.least": c.Aggregate.Least > 0,
		"privacy.unsafe_diagnostics": c.Privacy.UnsafeDiagnostics, "privacy.unsafe_ceiling": c.Privacy.UnsafeCeiling} {
		if wrong {
			v.add(key, "is set, must not be where method is %q: clients answer with model updates", c.Method)
		}
	}
	if c.Downstream.Task == Classification {
		v.add("downstream.task", "is %q, must be \"next_token\" where method is %q: clients train a language model",
			Classification, c.Method)
	}
}
