package fedavg

import (
	"popri/configs"
)

// Settings says how clients train the small model (downstream.model) in the methods "dp_fedavg" and "dp_ftrl", and how
// the server applies their updates. A client trains on its own texts as rows of begin, tokens and end, cut to
// downstream.length, and answers with the change of all weights, as one vector that is clipped to a norm.
type Settings struct {
	// LearningRate is that of a client's plain stochastic gradient descent. Default 0.03, in the middle of the 0.01 to
	// 0.06 that the POPri paper tunes over; choose it on validation clients.
	LearningRate float64 `yaml:"learning_rate"`
	// LocalEpochs is the number of passes of a client over its texts in a round. Default 1; more let the update grow
	// and let clients drift apart.
	LocalEpochs int `yaml:"local_epochs"`
	// ClipNorm is the L2 norm above which a client's update is scaled down: the sensitivity. The noise of a weight is a
	// multiple of it. Default 0.1; the paper tunes over 0.01 to 0.4. Smaller cuts off what clients have learnt, larger
	// adds noise.
	ClipNorm float64 `yaml:"clip_norm"`
	// Momentum is the server's: the part of its last step (dp_ftrl: of its sum of steps) that is added to the next.
	// Default 0. It is computed from releases and costs no privacy.
	Momentum float64 `yaml:"momentum"`
}

var settings = configs.Register("fedavg", Settings{LearningRate: 0.03, LocalEpochs: 1, ClipNorm: 0.1}, check)

func check(r *configs.Report, _ configs.Config, s Settings) {
	r.Above("fedavg.learning_rate", s.LearningRate, 0, 100)
	r.Count("fedavg.local_epochs", s.LocalEpochs, 1, 1000)
	r.Above("fedavg.clip_norm", s.ClipNorm, 0, 1e6)
	if m := s.Momentum; !(m >= 0 && m < 1) {
		r.Add("fedavg.momentum", "is %v, must be at least 0 and below 1", m)
	}
}

// The constants of both methods: the number of texts of a client's step, the paper's; and what multiplies the mean of
// the updates before it is added to the weights, plain averaging.
const (
	batch      = 2
	serverRate = 1
)
