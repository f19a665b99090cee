package genetic

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/scoring"
	"popri/show/series"
)

// Description describes the method.
var Description = method.Description{
	Method: configs.Method{Name: "genetic_eda", Check: checkRun},
	Clients: method.Clients{Query: query, Traffic: traffic,
		Selection: func(c configs.Config) *method.Selection {
			if !selects(c) {
				return nil
			}
			// Half of the budget's δ goes to the thresholds of all rounds.
			return &method.Selection{Picks: settings.Of(c).Parents, Slack: c.Privacy.Delta / float64(2*c.Trainer.Rounds)}
		}},
	Needs:  func(configs.Config) method.Needs { return method.Needs{Texts: true} },
	New:    newMethod,
	Series: figures,
	Cost: func(c configs.Config) method.Cost {
		s := settings.Of(c)
		cost := method.Cost{Samples: s.written(), Shared: 1}
		if s.Decoder == "prompt" {
			cost.Samples += c.Trainer.Rounds * s.Parents
		}
		return cost
	},
	Words: method.Words{
		Title: "Genetic EDA",
		About: "tunes nothing: a population of embeddings evolves by the clients' votes, and is turned into texts",
		Work: func(c configs.Config) string {
			s := settings.Of(c)
			return fmt.Sprintf("%d embeddings, of which %d at most are parents", s.children(), s.Parents)
		},
		Product: "near the embeddings that the clients' votes selected",
		Publishes: func(c configs.Config) string {
			return fmt.Sprintf("up to %d texts near the embeddings that the clients' votes selected",
				c.Trainer.Rounds*settings.Of(c).Parents)
		},
		Notes: notes,
	},
}

// votes are the clients' question where noise is added to all counts: each client has one vote, which its texts share.
func votes() scoring.VoteOptions {
	return scoring.VoteOptions{Metric: scoring.CosineMetric, Choices: 1, PerText: true, Bound: 1}
}

func query(c configs.Config) (name string, bound float64) {
	if s := settings.Of(c); selects(c) {
		return scoring.BallotName(s.domain(), s.Parents), 1
	}
	return scoring.CheckedName(votes().Name(), scoring.RoundChecks), votes().Bound
}

// traffic is the population's embeddings, and a vote or the counts.
func traffic(c configs.Config) method.Traffic {
	s := settings.Of(c)
	samples := s.Population + (c.Trainer.Rounds-1)*s.children()
	sent := samples + c.Trainer.Rounds*scoring.RoundChecks
	if selects(c) {
		sent = c.Trainer.Rounds
	}
	return method.Traffic{Sent: sent, Received: samples * c.Scoring.Dim}
}

// The keys of the figures of a round.
const (
	keyPopulation = "population"
	keyParents    = "parents"     // selected
	keyKept       = "kept"        // of these, whose texts have a word
	keyTexts      = "texts"       // different ones of those
	keyPublic     = "public"      // fraction of the kept texts that are public, word for word
	keyPerplexity = "perplexity"  // geometric mean over the selected individuals' texts
	keyDistance   = "fid"         // of the population
	keyApart      = "apart"       // of its mean
	keyTransport  = "wasserstein" // of the population
)

var figures = series.Set{
	Columns: []series.Series{
		{Key: keyPopulation, Name: "Population", Format: series.Count},
		{Key: keyParents, Name: "Selected", Format: series.Count},
		{Key: keyKept, Name: "Kept", Format: series.Count},
		{Key: keyTexts, Name: "Different texts", Format: series.Count},
		{Key: keyPublic, Name: "Public texts", Format: series.Percent, Decimals: 0},
		{Key: keyPerplexity, Name: "Perplexity", Format: series.Number, Decimals: 1},
		{Key: keyDistance, Name: "FID of the population", Format: series.Number, Decimals: 4},
		{Key: keyApart, Name: "Distance of its mean", Format: series.Number, Decimals: 4},
		{Key: keyTransport, Name: "Distance (Wasserstein)", Format: series.Number, Decimals: 4},
	},
	Plots: []series.Plot{
		{Title: "Distance to the clients' domain",
			Note: "of the population, which is embeddings without texts, to validation texts: the Fréchet " +
				"distance, which counts its spread, too, the distance of the means, and the Wasserstein distance of at " +
				"most 500 points of each",
			Lines: []series.Line{{Key: keyDistance, Name: "FID"}, {Key: keyApart, Name: "distance of the means"},
				{Key: keyTransport, Name: "Wasserstein distance"}}},
		{Title: "Parents", Note: "individuals that the votes selected, and those whose texts were kept",
			Lines: []series.Line{{Key: keyParents, Name: "selected"}, {Key: keyKept, Name: "kept"}}},
	},
}

func notes(c configs.Config) []string {
	how := "Selections follow LimitedDomain (Durfee and Rogers 2019): each client votes by one of its texts, " +
		"its texts in turn, and the list of the individuals with the most votes is released, by Gumbel noise, as far as they are above a noisy threshold."
	if !selects(c) {
		how = "Each client's texts share one vote. Gaussian noise was added to all counts, and the individuals with " +
			"the highest ones above the noise's bound were selected, which differs from the paper."
	}
	decoder := "the nearest of the public texts and of those that the generator wrote beforehand"
	if settings.Of(c).Decoder == "prompt" {
		decoder = "what the generator wrote when it was shown the nearest of the public texts and of those that it " +
			"wrote beforehand"
	}
	return []string{how,
		"The paper turns embeddings into texts by a trained inverter of the encoder. Here stands in for it: " +
			decoder + ". The paper also drops texts whose perplexity is 50 or more; here all are kept.",
		fmt.Sprintf("Over all rounds, a client sends and receives %s.", traffic(c))}
}
