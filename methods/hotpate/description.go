package hotpate

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/scoring/ensemble"
	"popri/show/series"
)

// Description describes the method.
var Description = method.Description{
	Method:  configs.Method{Name: "hot_pate", Check: checkRun},
	Clients: method.Clients{Query: query, Releases: releases, Traffic: traffic},
	Needs: func(c configs.Config) method.Needs {
		return method.Needs{Teachers: &method.Teachers{Key: "hot_pate.teachers", Number: settings.Of(c).Teachers,
			Examples: examples, CacheBytes: cacheBytes}}
	},
	New:    newMethod,
	Series: figures,
	Cost:   func(configs.Config) method.Cost { return method.Cost{} }, // the teachers' passes are the clients' work
	Words: method.Words{
		Title: "Hot PATE",
		About: "tunes nothing: prompts of the clients' texts vote for each token of a text",
		Work: func(c configs.Config) string {
			return fmt.Sprintf("%d texts of at most %d votes each", settings.Of(c).Texts, c.Generate.MaxNewTokens)
		},
		Product: "of tokens for which the clients' texts voted as prompts, with noise",
		Publishes: func(c configs.Config) string {
			return fmt.Sprintf("%d texts at most, of tokens for which the teachers voted", c.Trainer.Rounds*settings.Of(c).Texts)
		},
		Notes: notes,
	},
}

func releases(c configs.Config) int {
	return c.Trainer.Rounds * settings.Of(c).Texts * c.Generate.MaxNewTokens
}

// shared reports whether several clients share a teacher.
func shared(c configs.Config) bool { return settings.Of(c).Teachers > 0 }

// query is the name of the clients' question, and by how much one client's texts move a histogram of votes. Teachers as
// many as clients count as shared by several: the number of clients is not known here.
func query(c configs.Config) (name string, bound float64) {
	return ensemble.Name(settings.Of(c).Ensemble == "heterogeneous", settings.Of(c).Coordinated,
		c.Generate.Temperature), ensemble.Bound(shared(c))
}

// traffic is a token for each vote, and the token that follows from all, for a client that is a teacher of its own.
func traffic(c configs.Config) method.Traffic {
	n := releases(c)
	return method.Traffic{Sent: n, Received: n}
}

// The keys of the figures of a round.
const (
	keyTexts    = "texts"
	keyReleases = "releases"
	keyVoted    = "voted"    // fraction of the votes that gave a token
	keySupport  = "support"  // mean noised fraction of the teachers behind a released token
	keyOwn      = "teachers" // fraction of the texts' tokens that come from votes
)

var figures = series.Set{
	Columns: []series.Series{
		{Key: keyTexts, Name: "Texts", Format: series.Count},
		{Key: keyReleases, Name: "Votes", Format: series.Count},
		{Key: keyVoted, Name: "With a token", Format: series.Percent, Decimals: 1},
		{Key: keySupport, Name: "Teachers behind it", Format: series.Percent, Decimals: 1},
		{Key: keyOwn, Name: "Tokens by votes", Format: series.Percent, Decimals: 1},
	},
	Plots: []series.Plot{
		{Title: "Votes with a token", Note: "share of the votes in which enough teachers agreed", Percent: true,
			Lines: []series.Line{{Key: keyVoted, Name: "with a token"}}},
	},
}

func notes(c configs.Config) []string {
	h := settings.Of(c)
	who := "A teacher is a prompt of one client's texts, which abstains if they are taken away: one count of a " +
		"histogram moves by 1."
	if shared(c) {
		who = fmt.Sprintf("The clients are divided among %d teachers. Taking one client's texts away changes one "+
			"teacher's vote: two counts of a histogram move by 1, a norm of √2.", h.Teachers)
	}
	how := "more than half of the teachers, and the noise's bound, stood behind"
	if h.Ensemble == "heterogeneous" {
		how = "was drawn in proportion to its count among those whose count was twice the noise's bound or more"
	}
	out := []string{who,
		"Each vote is charged by itself with Gaussian noise on the whole histogram, whether it gave a token or not. " +
			"The accounting of Hot PATE's paper by Target Charging, by which votes on which nearly all teachers " +
			"agree, or none, would cost next to nothing, is not used: the paper leaves its constants open. Of a " +
			"histogram, one token that " +
			how +
			", with its noised count, was released, or that there was none."}
	if h.OnFailure == "base" {
		out = append(out, "After a vote without a token, the model went on by itself, prompted with public texts. "+
			"Those tokens depend on no client's text.")
	}
	if c.Privacy.NoiseMultiplier == 0 {
		out = append(out, fmt.Sprintf("The noise is for %d votes, of which a text that ends early leaves some "+
			"unused: what was spent is less than the budget.", releases(c)))
	}
	return out
}
