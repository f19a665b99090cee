package policy

import (
	"fmt"
	"strings"

	"popri/configs"
	"popri/methods/method"
	"popri/methods/rounds"
	"popri/show/series"
)

// Describe adds to a description what all methods that tune a language model say alike.
func Describe(d method.Description) method.Description {
	d.Trains = configs.Generator
	d.Query = func(c configs.Config) (string, float64) {
		facts := factsOf(c)
		return facts.Query, facts.Bound
	}
	d.Releases = func(c configs.Config) int { return factsOf(c).Releases }
	d.Traffic = func(c configs.Config) method.Traffic { return factsOf(c).Traffic }
	d.Needs = func(c configs.Config) method.Needs { return method.Needs{Texts: factsOf(c).Texts, Kinds: true} }
	d.Denoise = func(c configs.Config) string { return factsOf(c).Denoise }
	d.Work, d.Product, d.Untuned = work, productWords, untunedWords
	if d.Notes == nil {
		d.Notes = Notes
	}
	return d
}

// Cost is the writing of a run.
func Cost(c configs.Config) method.Cost {
	return method.Cost{Samples: c.Trainer.Rounds * c.Generate.Prompts * c.Generate.Samples, Shared: c.Generate.Samples,
		Product: c.Synthetic.Texts}
}

// Columns and plots of all methods that tune a language model.
var (
	Measured = []series.Series{
		{Key: "fid", Name: "FID", Format: series.Number, Decimals: 4},
		{Key: rounds.Distance, Name: "Distance of the means", Format: series.Number, Decimals: 4},
		{Key: "mean_tokens", Name: "Tokens a text", Format: series.Number, Decimals: 1},
	}
	FrechetPlot = series.Plot{Title: "Distance to the clients' domain",
		Note:  "Fréchet distance of the samples' embeddings; lower is nearer",
		Lines: []series.Line{{Key: "fid", Name: "FID"}}}
	MedoidPlot = series.Plot{Title: "Spread of the samples",
		Note: "median distance of the samples' embeddings to their medoid, in the plane of the validation texts' " +
			"first two principal components; a fall means that the samples become alike",
		Lines: []series.Line{{Key: "medoid", Name: "distance"}}}
)

// How pages describe the texts of a tuned model and of the untuned model.
const (
	productWords = "tuned by the clients' noised scores"
	untunedWords = "same generator, public prompts and seeds, without adapters"
)

// work describes what clients score in a round.
func work(c configs.Config) string {
	return fmt.Sprintf("%d prompts × %d samples", c.Generate.Prompts, c.Generate.Samples)
}

// Notes say how releases are read and what prompts and product were made of, for the report.
func Notes(c configs.Config) []string {
	notes := factsOf(c).Notes
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if c.Scoring.Objective == "witness" {
		note("Samples are ranked by how much more they resemble the clients' texts than one another. The ranking is " +
			"computed from the same sums.")
	}
	if c.Generate.Quote == "relevant" {
		note("Prompts quote the public texts that are most relevant to the clients. Which texts these are depends on the " +
			"clients, within ε.")
	}
	if c.Generate.Quote == "scored" {
		note("Prompts quote the samples of earlier rounds that the clients' released sum scores highest. These texts " +
			"were written by the model, not by clients.")
	}
	if k := c.Synthetic.Kept; k < 1 {
		note("Rows of the synthetic set were drawn from the written texts by weights that move their mean embedding "+
			"near the clients'. They leave an effective share of at least %.3g.", k)
	}
	switch n := c.Synthetic.PublicTexts; {
	case n > 0 && c.Synthetic.Mix == "validated":
		note("The synthetic set is weighted public text, written text, or both, whichever taught the small model " +
			"most about the validation clients. Which public texts these are depends on the clients, within ε.")
	case n > 0:
		note("%d texts of the synthetic set are public texts. Which texts these are depends on the clients, within ε.", n)
	}
	return append(notes, traffic(c))
}

// traffic says how much a client sends and receives in all rounds, for each value of scoring.release.
func traffic(c configs.Config) string {
	var others []string
	for _, name := range configs.Choices("scoring.release") {
		if name != c.Scoring.Release {
			other := c
			other.Scoring.Release = name
			others = append(others, fmt.Sprintf("%s: %s", name, factsOf(other).Traffic))
		}
	}
	return fmt.Sprintf("Over all rounds, a client sends and receives %s (scoring.release=%s; for comparison, %s). Samples "+
		"count as embeddings of %d values.", factsOf(c).Traffic, c.Scoring.Release, strings.Join(others, "; "), c.Scoring.Dim)
}
