package policy

import (
	"fmt"
	"strings"

	"popri/configs"
	"popri/method"
	"popri/methods/target"
	"popri/series"
	"popri/trainer"
)

// Describe adds to a description what all methods that tune a language model say alike.
func Describe(d method.Description) method.Description {
	d.Query, d.Releases, d.NeedsTexts = Query, Releases, NeedsTexts
	d.Work, d.Denoise, d.Notes, d.Traffic = Work, Denoise, Notes, Traffic
	d.Product, d.Untuned = Product, Untuned
	return d
}

// Columns and plots of all methods that tune a language model.
var (
	Measured = []series.Series{
		{Key: "fid", Name: "FID", Format: series.Number, Decimals: 4},
		{Key: trainer.Distance, Name: "Distance of the means", Format: series.Number, Decimals: 4},
		{Key: "mean_tokens", Name: "Tokens a text", Format: series.Number, Decimals: 1},
	}
	FrechetPlot = series.Plot{Title: "Distance to the clients' domain",
		Note:  "Fréchet distance of the samples' embeddings; lower is nearer",
		Lines: []series.Line{{Key: "fid", Name: "FID"}}}
)

// How pages describe the texts of a tuned model and of the untuned model.
const (
	Product = "tuned by the clients' noised scores"
	Untuned = "same generator, public prompts and seeds, without adapters"
)

// Work describes what clients score in a round.
func Work(c configs.Config) string {
	return fmt.Sprintf("%d prompts × %d samples", c.Generate.Prompts, c.Generate.Samples)
}

// Denoise says how noise is removed from a release; "" if the release has no part that is noise alone.
func Denoise(c configs.Config) string {
	switch {
	case once(c):
		return ""
	case compact(c) && c.Scoring.Denoise != "pool":
		return "project"
	}
	return c.Scoring.Denoise
}

// Notes say how releases are read, for the report.
func Notes(c configs.Config) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case once(c):
		note("The clients were asked once, for %s. Every score of a sample and of a public text follows from that release and "+
			"costs no privacy.", target.Asked(c))
	case compact(c):
		note("Clients sent their scores in as few numbers as the scores have dimensions.")
	case c.Scoring.Denoise == "project":
		note("After its release, each sum was projected onto the space in which the true sum lies, which takes noise out. The " +
			"projection uses the released sum and the samples only, so it costs no privacy.")
	}
	if !once(c) && c.Scoring.Denoise == "pool" {
		note("The scores of a round use its release and all earlier ones, weighted by their noise: together they tell the " +
			"clients' mean embedding better than one of them. They are charged already, so it costs no privacy.")
	}
	if c.Scoring.Objective == "witness" {
		note("Samples are ranked by how much more they resemble the clients' texts than one another. The ranking is computed " +
			"from the same sums.")
	}
	if c.Generate.Quote == "relevant" || c.Synthetic.Examples == "relevant" {
		note("Prompts quote the public texts that are most relevant to the clients. Which texts these are depends on the " +
			"clients, within ε.")
	}
	if c.Generate.Quote == "scored" || c.Synthetic.Examples == "scored" {
		note("Prompts quote the samples of earlier rounds that the clients' released sum scores highest. These texts were written " +
			"by the model, not by clients.")
	}
	if c.Warmup.Steps > 0 && !c.Privacy.UnsafeCeiling {
		note("Before the first round, the adapters were trained for %d steps on the public texts that are most relevant to the "+
			"clients.", c.Warmup.Steps)
	}
	if k := c.Synthetic.Kept; k < 1 {
		note("Rows of the synthetic set were drawn from the written texts by weights that bring their mean embedding near the "+
			"clients'. They leave an effective share of at least %.3g.", k)
	}
	switch n := c.Synthetic.PublicTexts; {
	case n > 0 && c.Synthetic.Mix == "validated":
		note("The synthetic set is weighted public text, written text, or both, whichever taught the small model most about the " +
			"validation clients. Which public texts these are depends on the clients, within ε.")
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
			others = append(others, fmt.Sprintf("%s: %s", name, trafficOf(c, name)))
		}
	}
	return fmt.Sprintf("Over all rounds, a client sends and receives %s (scoring.release=%s; for comparison, %s). Samples count "+
		"as embeddings of %d values.", Traffic(c), c.Scoring.Release, strings.Join(others, "; "), c.Scoring.Dim)
}

// Traffic is what a client sends and receives.
func Traffic(c configs.Config) method.Traffic { return trafficOf(c, c.Scoring.Release) }

func trafficOf(c configs.Config, release string) method.Traffic {
	rounds, samples, dim := c.Trainer.Rounds, c.Generate.Prompts*c.Generate.Samples, c.Scoring.Dim
	switch release {
	case "once":
		return target.Traffic(c)
	case "compact":
		samples = min(samples, dim)
	}
	return method.Traffic{Sent: rounds * samples, Received: rounds * samples * dim}
}
