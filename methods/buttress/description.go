package buttress

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/show/series"
)

// Description describes the method.
var Description = method.Description{
	Method: configs.Method{Name: "buttress", Check: check, Follows: true},
	Clients: method.Clients{
		Query:    func(configs.Config) (name string, bound float64) { return "none", 0 },
		Rounds:   func(configs.Config) int { return 1 },
		Releases: func(configs.Config) int { return 0 },
		Traffic:  func(configs.Config) method.Traffic { return method.Traffic{} },
	},
	Needs: func(c configs.Config) method.Needs {
		f, _ := follow(c.Privacy.Continues) // newMethod returns the error
		return method.Needs{Models: []method.Model{{Key: "privacy.continues", Path: f.after},
			{Key: "privacy.continues, the model before", Path: f.before}}}
	},
	New:    newMethod,
	Series: figures,
	Cost:   func(configs.Config) method.Cost { return method.Cost{} }, // two passes of small models
	Words: method.Words{
		Title:     "Buttress",
		About:     "asks nobody: the small model that clients trained filters an earlier run's synthetic set",
		Work:      func(configs.Config) string { return "scores for an earlier run's synthetic set" },
		Product:   "chosen from an earlier run's by what the clients' training made likelier",
		Publishes: kept,
		Notes: func(c configs.Config) []string {
			return []string{"The clients were not asked. What the run knows of them is in the models of the runs before it, whose " +
				"releases count in ε. Scores and choice are computed from these models and cost no privacy.",
				"The run keeps " + kept(c) + ". The gain is the mean log-likelihood of a text's tokens after the training at the " +
					"clients minus the mean before it."}
		},
	},
}

// kept says which texts are kept.
func kept(c configs.Config) string {
	s := settings.Of(c)
	if s.Gamma > 0 {
		return fmt.Sprintf("%g %% of an earlier run's texts, drawn with weights exp(%g·gain)", 100*s.Keep, s.Gamma)
	}
	return fmt.Sprintf("the %g %% of an earlier run's texts with the largest gain", 100*s.Keep)
}

// The keys of the round's figures.
const (
	keyTexts      = "texts"
	keyKept       = "kept"
	keyGain       = "gain"        // mean over all texts, nats a token
	keyKeptGain   = "gain/kept"   // over the kept ones
	keyPublic     = "public"      // fraction of public texts
	keyKeptPublic = "public/kept" // among the kept ones
)

var figures = series.Set{
	Columns: []series.Series{
		{Key: keyTexts, Name: "Texts", Format: series.Count},
		{Key: keyKept, Name: "Kept", Format: series.Count},
		{Key: keyGain, Name: "Gain, nats a token", Format: series.Number, Decimals: 4},
		{Key: keyKeptGain, Name: "Gain of the kept", Format: series.Number, Decimals: 4},
		{Key: keyPublic, Name: "Public", Format: series.Percent, Decimals: 1},
		{Key: keyKeptPublic, Name: "Public of the kept", Format: series.Percent, Decimals: 1},
	},
}
