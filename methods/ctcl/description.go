package ctcl

import (
	"fmt"

	"popri/configs"
	"popri/methods/fedavg"
	"popri/methods/method"
	"popri/scoring"
	"popri/show/series"
)

// Description describes the method.
var Description = method.Description{
	Method: configs.Method{Name: "ctcl", Trains: configs.Author, Check: check},
	Clients: method.Clients{
		First:   func(configs.Config) (string, float64) { return scoring.TopicsAsked() },
		Query:   fedavg.Query,
		Traffic: func(c configs.Config) method.Traffic { return fedavg.Traffic(c, c.Trainer.Rounds-1) },
	},
	Needs: func(c configs.Config) method.Needs {
		needs := fedavg.Needs(c)
		needs.Topics, needs.Meaning = true, true
		return needs
	},
	New:    newMethod,
	Series: figures,
	Words: method.Words{
		Title: "CTCL",
		About: "writes by topic: clients count their texts' topics, then train the small model on texts behind their " +
			"topics' keywords, which then writes as much of each topic as they have",
		Work:    func(c configs.Config) string { return "training at the clients behind keywords of topics" },
		Product: "written by the small model that clients trained, of their topics",
		Publishes: func(c configs.Config) string {
			return fmt.Sprintf("%d texts of the small model that clients trained", c.Synthetic.Texts)
		},
		Notes: notes,
	},
}

// check reports what the method needs of other settings.
func check(r *configs.Report, c configs.Config) {
	if c.Trainer.Rounds < 2 {
		r.Add("trainer.rounds", "is %d, must be 2 or more where method is \"ctcl\": round 1 counts topics", c.Trainer.Rounds)
	}
	r.Refuse(c, "where method is \"ctcl\": topics are no labels", "generate.by_label")
}

// The keys of the figures of round 1.
const (
	keyTopics  = "topics"
	keyLargest = "topics/largest"
)

var figures = series.Set{
	Columns: append([]series.Series{
		{Key: keyTopics, Name: "Topics", Format: series.Count},
		{Key: keyLargest, Name: "Largest topic", Format: series.Percent, Decimals: 1},
	}, fedavg.Figures.Columns...),
	Plots: fedavg.Figures.Plots,
}

func notes(c configs.Config) []string {
	return []string{"In round 1, a client's vector is the fractions of its texts of each topic, of norm 1 at most. In each later " +
		"round, it is the change of the small model by its own training on its texts behind their topics' keywords, scaled " +
		"down to the norm bound. One noise multiplier serves both.",
		"Topics and their keywords follow from public texts alone, and so do the weights with which the training at the " +
			"clients begins.",
		"The synthetic set has texts of each topic in proportion to its noised count; counts below 0 are 0."}
}
