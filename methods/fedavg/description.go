package fedavg

import (
	"fmt"

	"popri/configs"
	"popri/internal/modelcache"
	"popri/internal/rundir"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/model/lm"
	"popri/model/shipped"
	"popri/show/series"
)

// FedAvg describes DP-FedAvg, FTRL describes DP-FTRL.
var (
	FedAvg = describe(configs.Method{Name: "dp_fedavg", Elsewhere: true, Check: short}, "DP-FedAvg", "by federated averaging",
		"averaged over the clients' own training, with noise")
	FTRL = describe(configs.Method{Name: treeMethod, Samplings: []string{"full", "tree"}}, "DP-FTRL",
		"with the noise of a tree", "summed up over the clients' own training, with the noise of a tree")
)

const treeMethod = "dp_ftrl"

func describe(m configs.Method, title, how, product string) method.Description {
	m.Trains = configs.SmallModel
	return method.Description{
		Method:  m,
		Clients: method.Clients{Query: Query, Traffic: func(c configs.Config) method.Traffic { return Traffic(c, c.Trainer.Rounds) }},
		Needs:   Needs,
		New:     func(e method.Env) (rounds.Method, error) { return New(e, 0) },
		Further: func(run string) []string { return further(m.Name, run) },
		Series:  Figures,
		Cost:    func(configs.Config) method.Cost { return method.Cost{} }, // the training is the clients' work
		Words: method.Words{Title: title, Work: work, Product: product, Notes: notes,
			About: "writes no text: clients train the small model itself, whose noised average is the result, " + how},
	}
}

// Needs are what a run provides for clients who train.
func Needs(c configs.Config) method.Needs {
	return method.Needs{Small: true, Rank: settings.Of(c).LoRARank, Rows: settings.Of(c).ClientTexts}
}

// Figures are a round's figures. Measurements on validation clients are of the weights after the round; in the first
// round also before it.
var Figures = series.Set{
	Columns: []series.Series{
		{Key: configs.ValidationLoss + rounds.After, Name: "Loss", Format: series.Number, Decimals: 4},
		{Key: "validation_accuracy" + rounds.After, Name: "Accuracy", Format: series.Percent, Decimals: 2},
		{Key: "moved", Name: "Step of the weights", Format: series.Number, Decimals: 4},
		{Key: "noise", Name: "Noise in it", Format: series.Number, Decimals: 4},
		{Key: "pass", Name: "Passes", Format: series.Number, Decimals: 2},
	},
	Plots: []series.Plot{
		{Title: "Loss on the validation clients",
			Note:  "nats a token, without noise, of the weights after the round; lower is better",
			Lines: []series.Line{{Key: configs.ValidationLoss + rounds.After, Name: "loss"}}},
		{Title: "Step and noise",
			Note: "L2 norm of the change of all weights in a round, and what the noise of the release makes of it on " +
				"average; where they are equal, the step is noise",
			Lines: []series.Line{{Key: "moved", Name: "step"}, {Key: "noise", Name: "noise"}}},
	},
}

// shape is the small model's shape; ok is false if its folder is not there.
func shape(c configs.Config) (s lm.Shape, ok bool) {
	dir, err := modelcache.Dir(c.Downstream.Model, shipped.Device)
	if err == nil {
		s, err = lm.Inspect(dir)
	}
	return s, err == nil
}

// values is the length of a client's vector; 0 if the small model's folder is not there.
func values(c configs.Config) int {
	s, ok := shape(c)
	switch rank := settings.Of(c).LoRARank; {
	case !ok:
		return 0
	case rank > 0:
		return rank * 2 * s.Config.Layers * s.Config.Hidden // the last projections of attention and MLP
	}
	return int(s.Parameters)
}

// Traffic is the vector each way in a number of rounds: float32 to the client, and steps of the grid, of 8 bytes, back. A
// client of an adapter gets the model once.
func Traffic(c configs.Config, rounds int) method.Traffic {
	n := values(c) * rounds
	t := method.Traffic{Sent: n, Received: n}
	if s, ok := shape(c); ok && settings.Of(c).LoRARank > 0 {
		t.Received += int(s.Parameters)
	}
	return t
}

func notes(c configs.Config) []string {
	f := settings.Of(c)
	what := "all weights of the small model"
	if f.LoRARank > 0 {
		what = fmt.Sprintf("an adapter of the small model (rank %d, %d values)", f.LoRARank, values(c))
	}
	over := "its texts"
	if f.ClientTexts > 0 {
		over = fmt.Sprintf("%d of its texts at most", f.ClientTexts)
	}
	out := []string{fmt.Sprintf("A client's vector is the change of %s by its own "+
		"training (%s over %s, %d texts a step, rate %g), scaled down to a norm of %g at most: all its texts "+
		"together, whatever their number. The guarantee is for the whole of a client's text, not for single texts. "+
		"The run publishes the model: it, its answers and all that is computed from it are within ε.",
		what, epochs(f.LocalEpochs), over, training(c).Batch, f.LearningRate, f.ClipNorm)}
	if c.Privacy.Continues != "" && rundir.IsSmall(c.Downstream.Model) {
		out = append(out, "The training began with the small model of an earlier run, whose charges count. An evaluation "+
			"compares with that model.")
	}
	switch c.Fed.Sampling {
	case "tree":
		out = append(out,
			fmt.Sprintf("The %d rounds count as rounds, not as passes over the clients: a pass is a tree, and takes "+
				"as many rounds as cohorts of %d are in the clients. (The paper's noise for DP-FTRL fits 20 passes; "+
				"popri account table3 has both.)",
				c.Trainer.Rounds, c.Fed.ClientsPerRound))
	case "full":
		if c.Method == treeMethod {
			out = append(out,
				"Every client took part in every round, so that each tree has one leaf: the run is one of DP-FedAvg.")
		}
	}
	out = append(out,
		"The noise is discrete Gaussian on a grid, drawn exactly for every weight; sums are rounded to float32 "+
			"afterwards.",
		"Learning rate and clipping are the configuration's. If they were tuned on other runs with these clients, ε "+
			"does not count those runs.")
	if t := Traffic(c, c.Trainer.Rounds); t.Sent > 0 {
		out = append(out,
			fmt.Sprintf("Over all rounds, a client that is asked every time sends and receives %s: its vector, and "+
				"the weights that it begins with.", t))
	}
	return out
}
