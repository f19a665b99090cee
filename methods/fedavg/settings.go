package fedavg

import (
	"path/filepath"

	"popri/configs"
	"popri/internal/rundir"
)

// Settings says how clients train the small model (downstream.model) in the methods "dp_fedavg" and "dp_ftrl", and how
// the server applies their updates. A client trains on its own texts as rows of begin, tokens and end, cut to
// downstream.length, and answers with the change of all weights or of an adapter, as one vector that is clipped to a norm.
type Settings struct {
	// LearningRate is the rate of a client's plain stochastic gradient descent. Default 0.03, in the middle of the
	// 0.01 to 0.06 that the POPri paper tunes over; choose it on validation clients.
	LearningRate float64 `yaml:"learning_rate" range:"(0, 1000]"`
	// LocalEpochs is the number of passes of a client over its texts in a round. Default 1; more let the update grow
	// and let clients drift apart.
	LocalEpochs int `yaml:"local_epochs" range:"[1, 1000]"`
	// ClientTexts is the most texts on which a client trains in a pass, drawn again for each. Default 0: all. Fewer save the
	// clients' time and leave the charge as it is, since a client counts once.
	ClientTexts int `yaml:"client_texts" range:"[0, 2^24]"`
	// ClipNorm is the L2 norm above which a client's update is scaled down: the sensitivity. The noise of a weight is a
	// multiple of it. Default 0.1; the paper tunes over 0.01 to 0.4. Smaller cuts off what clients have learnt, larger
	// adds noise.
	ClipNorm float64 `yaml:"clip_norm" range:"(0, 1e6]"`
	// Momentum is the server's: the part of its last step (dp_ftrl: of its sum of steps) that is added to the next.
	// Default 0. It is computed from releases and costs no privacy.
	Momentum float64 `yaml:"momentum" range:"[0, 1)"`
	// LoRARank is the rank of an adapter that clients train in place of all weights, on the projections onto the residual
	// stream, with alpha = 16·rank. The matrices A stay as they were drawn, and the matrices B are the vector (FFA-LoRA, Sun
	// et al. 2024). A short vector has little noise: the norm of the noise grows with the square root of the length. A
	// client's step has up to 16 texts. "popri run --at-clients" sets rank 1, and learning rate and clip
	// norm that suit it. Default 0: all weights, which clients behind two aggregators cannot send.
	LoRARank int `yaml:"lora_rank" range:"[0, 256]"`
}

var settings = configs.Register("fedavg", Settings{LearningRate: 0.03, LocalEpochs: 1, ClipNorm: 0.1}, nil)

// The constants of both methods: the number of texts of a client's step, the paper's, and of one that trains an adapter;
// and what multiplies the mean of the updates before it is added to the weights, plain averaging.
const (
	batch        = 2
	adapterBatch = 16
	serverRate   = 1
)

// short refuses all weights where the vector would be divided into shares: no announcement has as many values.
func short(v *configs.Report, c configs.Config) {
	if c.Aggregate.Least > 0 && settings.Of(c).LoRARank == 0 {
		v.Add("fedavg.lora_rank", "is 0, must be above 0 where aggregate.least is above 0: all weights are too long a vector")
	}
}

// further are the settings with which clients train an adapter of the small model of a finished run. They were chosen on
// validation clients (docs/lab/2026-11-28-adapter-at-clients.md).
func further(method, run string) []string {
	return []string{"method=" + method, "downstream.model=" + filepath.Join(run, rundir.Small), "privacy.continues=" + run,
		"privacy.noise_multiplier=0", "fedavg.lora_rank=1", "fedavg.learning_rate=2", "fedavg.clip_norm=0.8",
		"trainer.rounds=10", "trainer.patience=0", "trainer.select=validation"}
}
