package wasp

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/model/shipped"
	"popri/scoring"
	"popri/show/series"
)

// Description describes WASP.
var Description = method.Description{
	Method: configs.Method{Name: "wasp", Check: checkRun},
	Clients: method.Clients{Query: asked, Releases: releases, Traffic: traffic,
		Rounds: func(c configs.Config) int { return c.Trainer.Rounds - 1 }},
	Needs: func(c configs.Config) method.Needs {
		needs := method.Needs{Texts: true, Labels: true}
		for _, path := range settings.Of(c).Generators {
			if !remote(path) {
				needs.Models = append(needs.Models, method.Model{Key: "wasp.generators:" + path, Path: path, Name: shipped.Generator})
			}
		}
		return needs
	},
	New:    newMethod,
	Series: figures,
	Words: method.Words{
		Title: "WASP",
		About: "lets several generators write labelled texts, which the clients' votes for near and far ones improve",
		Work: func(c configs.Config) string {
			return fmt.Sprintf("%d texts by %d generators", part(c.Synthetic.Texts, c.Trainer.Rounds, 1),
				1+len(settings.Of(c).Generators))
		},
		Publishes: func(c configs.Config) string {
			return fmt.Sprintf("%d texts that the models write after examples that the clients' noised votes called good and bad",
				c.Synthetic.Texts)
		},
		Product: "written after examples that the clients' noised votes called good and bad",
		Notes:   notes,
	},
}

// The keys of the figures of a round.
const (
	keySamples  = "samples"      // texts so far
	keyWritten  = "written"      // in the round
	keyBlank    = "blank"        // of them, without a word, which are left out
	keyNear     = "votes/near"   // sum of the counts, noise included
	keyNegative = "votes/below"  // fraction of the near counts that noise made negative
	keyMost     = "weight/most"  // of the generator with the most votes
	keyLeast    = "weight/least" // of the one with the fewest
	keyDistance = "fid"
	keyTokens   = "mean_tokens"
)

var figures = series.Set{
	Columns: []series.Series{
		{Key: keySamples, Name: "Texts", Format: series.Count},
		{Key: keyWritten, Name: "Written", Format: series.Count},
		{Key: keyNear, Name: "Near votes", Format: series.Number, Decimals: 0},
		{Key: keyNegative, Name: "Negative counts", Format: series.Percent, Decimals: 1},
		{Key: keyMost, Name: "Largest weight", Format: series.Number, Decimals: 3},
		{Key: keyLeast, Name: "Least weight", Format: series.Number, Decimals: 3},
		{Key: keyDistance, Name: "FID", Format: series.Number, Decimals: 4},
		{Key: keyTokens, Name: "Tokens a text", Format: series.Number, Decimals: 1},
		{Key: keyBlank, Name: "Blank", Format: series.Count},
	},
	Plots: []series.Plot{
		{Title: "Distance to the clients' domain", Note: "Fréchet distance of all texts so far; lower is nearer",
			Lines: []series.Line{{Key: keyDistance, Name: "FID"}}},
		{Title: "Weights of the generators", Note: "votes of a generator's texts, relative to their number",
			Lines: []series.Line{{Key: keyMost, Name: "largest"}, {Key: keyLeast, Name: "least"}}},
	},
}

// bound is the norm of scoring.clip_norm texts' votes.
func bound(c configs.Config) float64 {
	return c.Scoring.ClipNorm * scoring.ContrastNorm(settings.Of(c).Votes)
}

func asked(c configs.Config) (name string, norm float64) {
	return scoring.CheckedName(scoring.ContrastName(settings.Of(c).Votes), scoring.RoundChecks), bound(c)
}

// private reports whether clients vote.
func private(c configs.Config) bool { return settings.Of(c).VotesFrom == "private" }

func releases(c configs.Config) int {
	if !private(c) {
		return 0
	}
	return c.Trainer.Rounds - 1
}

// traffic is the embeddings of all texts so far in each round, and their two counts.
func traffic(c configs.Config) (t method.Traffic) {
	texts := 0
	for round := 1; round <= releases(c); round++ {
		texts += part(c.Synthetic.Texts, c.Trainer.Rounds, round)
		t.Sent += 2*texts + scoring.RoundChecks
		t.Received += texts * c.Scoring.Dim
	}
	return t
}

func notes(c configs.Config) []string {
	if !private(c) {
		from := settings.Of(c).VotesFrom
		return []string{fmt.Sprintf("%s voted in place of the clients, who were not asked (wasp.votes_from=%s).",
			map[string]string{"public": "Labelled public texts", "written": "The written texts"}[from], from)}
	}
	w := settings.Of(c)
	norm := scoring.ContrastNorm(w.Votes)
	return []string{
		fmt.Sprintf("A client votes within the labels of its texts: each text for its %d nearest texts and its %d "+
			"furthest, with weights 1, 1/2, 1/4, …. The vector of one text has the norm %.4f, and a client's vector "+
			"was scaled down to %.4f at most. Which labels a client has shows in nothing but that vector.", w.Votes,
			w.Votes, norm, bound(c)),
		paperWords(c, bound(c)),
		"Counts that the noise made negative count as 0 for the generators' weights, which are scaled to a sum of 1.",
		fmt.Sprintf("Over all rounds, a client sends and receives %s. Texts count as embeddings of %d values.",
			traffic(c), c.Scoring.Dim),
	}
}

// paperWords compares the paper's noise with exact accounting.
func paperWords(c configs.Config, norm float64) string {
	n, p := releases(c), c.Privacy
	votes := paperNoise(4, p.Epsilon, p.Delta/float64(n), n, 1)
	text := fmt.Sprintf("The paper's noise for this ε and δ has a standard deviation of %.3f votes, from a "+
		"sensitivity of 4 (privacy.noise_multiplier=%.3f)", votes, votes/norm)
	if spent, err := spentBy(votes/norm, p.Delta, n); err == nil {
		text += fmt.Sprintf("; with it, %d releases spend ε = %.2f by exact accounting, which decides the noise here", n, spent)
	}
	return text + "."
}
