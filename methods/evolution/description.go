package evolution

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/scoring"
	"popri/show/series"
)

// Description describes Private Evolution.
var Description = method.Description{
	Method:  configs.Method{Name: "private_evolution", Check: checkRun},
	Clients: method.Clients{Query: asked, Traffic: traffic},
	Needs: func(c configs.Config) method.Needs {
		needs := method.Needs{Texts: true, Meaning: true}
		if s := settings.Of(c); s.fillsMasks() {
			needs.Models = []method.Model{{Key: "private_evolution.masked_model", Path: s.MaskedModel}}
		}
		return needs
	},
	New:    newMethod,
	Series: figures,
	Cost: func(c configs.Config) method.Cost {
		return method.Cost{Samples: written(c), Shared: 1, Product: c.Synthetic.Texts}
	},
	Words: method.Words{
		Title: "Private Evolution",
		About: "varies a population of texts that the clients vote on",
		Work:  work,
		Denoise: func(c configs.Config) string {
			return fmt.Sprintf("threshold of %g votes", settings.Of(c).Threshold)
		},
		Product: "written after texts that the clients' noised votes selected",
		Publishes: func(c configs.Config) string {
			if settings.Of(c).Variant == AugPE {
				return "the texts that the clients' noised votes selected last"
			}
			return fmt.Sprintf("%d texts that the model writes after those that the clients' noised votes selected", c.Synthetic.Texts)
		},
		Notes: notes,
	},
}

// The keys of the figures of a round.
const (
	keySamples    = "samples"       // texts that clients voted on
	keyTotal      = "votes/total"   // sum of the released counts, noise included
	keyAbove      = "votes/above"   // samples whose count exceeds the threshold
	keyParents    = "parents"       // fraction of the samples that were selected
	keyGeneration = "generation"    // mean over the selected samples
	keyKept       = "parents/again" // 1 where no count exceeded the threshold
	keyDistance   = "fid"
	keyTokens     = "mean_tokens"
)

var figures = series.Set{
	Columns: []series.Series{
		{Key: keyTotal, Name: "Votes", Format: series.Number, Decimals: 0},
		{Key: keyAbove, Name: "Above the threshold", Format: series.Count},
		{Key: keyParents, Name: "Selected", Format: series.Percent, Decimals: 1},
		{Key: keyGeneration, Name: "Generation", Format: series.Number, Decimals: 2},
		{Key: keyDistance, Name: "FID", Format: series.Number, Decimals: 4},
		{Key: keyTokens, Name: "Tokens a text", Format: series.Number, Decimals: 1},
		{Key: keySamples, Name: "Samples", Format: series.Count},
	},
	Plots: []series.Plot{
		{Title: "Distance to the clients' domain", Note: "Fréchet distance of the samples' embeddings; lower is nearer",
			Lines: []series.Line{{Key: keyDistance, Name: "FID"}}},
		{Title: "Selected samples", Note: "share of the population that becomes parents of the next one", Percent: true,
			Lines: []series.Line{{Key: keyParents, Name: "selected"}}},
		{Title: "Samples above the threshold", Note: "whose noised votes exceed private_evolution.threshold",
			Lines: []series.Line{{Key: keyAbove, Name: "above"}}},
		{Title: "Generation", Note: "variations between a selected sample and its public text",
			Lines: []series.Line{{Key: keyGeneration, Name: "generation"}}},
	},
}

// votes are the clients' query, as in both papers: each text votes for its nearest sample, and a client's votes are
// clipped to scoring.clip_norm: at 1, no client's votes are below it, so that no noise is wasted; at the most texts of a
// client, nothing is clipped, and the noise is PrE-Text's. By cosine, samples whose variations agree would win, because
// the mean of their embeddings is longer.
func votes(c configs.Config) scoring.VoteOptions {
	return scoring.VoteOptions{Metric: scoring.L2, Choices: 1, Equal: true, Bound: c.Scoring.ClipNorm}
}

func asked(c configs.Config) (name string, bound float64) {
	return scoring.CheckedName(votes(c).Name(), scoring.RoundChecks), votes(c).Bound
}

func work(c configs.Config) string {
	e := settings.Of(c)
	text := fmt.Sprintf("%d samples", e.Population)
	if n := rulesOf(e).variations; n > 0 {
		text += fmt.Sprintf(" with %d variations each", n)
	}
	return text
}

// traffic is the population's embeddings and their counts of votes.
func traffic(c configs.Config) method.Traffic {
	e := settings.Of(c)
	samples := rulesOf(e).votedOn(e.Population)
	return method.Traffic{Sent: c.Trainer.Rounds * (samples + scoring.RoundChecks),
		Received: c.Trainer.Rounds * samples * c.Scoring.Dim}
}

func notes(c configs.Config) []string {
	e := settings.Of(c)
	out := []string{fmt.Sprintf("After its release, each count of votes was lowered by %g, and what fell below 0 "+
		"counts as 0. What is selected follows from the released counts alone, so it costs no privacy.", e.Threshold)}
	out = append(out, fmt.Sprintf("Over all rounds, a client sends and receives %s. Samples count as embeddings of "+
		"%d values.", traffic(c), c.Scoring.Dim))
	return out
}
