package assembly

import (
	"context"

	"popri/accountant/ledger"
	"popri/configs"
	"popri/datasets/clients"
	"popri/eval/metrics"
	"popri/fedsim"
	"popri/internal/rng"
	"popri/methods"
	"popri/model/embedding"
	"popri/scoring"
	"popri/scoring/query"
)

// Federation says how the releases of a run in dir are charged.
func Federation(c configs.Config, dir string, l *ledger.Ledger) fedsim.Config {
	f := fedsim.Config{Ledger: l, InsecureSeed: noiseSeed(c)}
	if c.Privacy.UnsafeDiagnostics {
		f.UnsafeDiagnostics = diagnostics(c, dir)
	}
	return f
}

// noiseSeed is the seed of a run's noise, for tests; nil for none.
func noiseSeed(c configs.Config) *uint64 {
	if !c.Privacy.InsecureSeededNoise {
		return nil
	}
	return new(rng.Seed(c.Seed, "noise"))
}

// Mechanism makes a run's releases, with noise of multiplier sigma.
func Mechanism(c configs.Config, sigma float64, b ledger.Budget) fedsim.Mechanism {
	g := fedsim.Gaussian{Sigma: sigma, Sampling: ledger.Sampling(c.Fed.Sampling), Cohort: c.Fed.ClientsPerRound,
		Float32: c.AtClients()}
	d := methods.Of(c)
	selection := d.Selection(c)
	switch {
	case g.Sampling == ledger.Tree:
		return &fedsim.Tree{Sigma: sigma, Leaf: g.Cohort, Order: rng.Seed(c.Seed, "order")}
	case selection != nil:
		return fedsim.Selection{Scale: sigma, Picks: selection.Picks, Slack: selection.Slack, Group: b.Group}
	case d.Needs(c).Teachers != nil:
		return fedsim.Choice{Gaussian: g}
	case c.Aggregate.Least > 0:
		return fedsim.Aggregated{Gaussian: g}
	}
	return g
}

// Reporting are clients whose reports to two aggregators the run simulates.
func Reporting(c configs.Config, all fedsim.Rounding) fedsim.Clients {
	r := fedsim.Reporting{Rounding: all, Least: c.Aggregate.Least, InsecureSeed: noiseSeed(c)}
	if c.Aggregate.Available < 1 {
		r.Arrived = fedsim.Participation{Clients: all.N(), Available: c.Aggregate.Available,
			Seed: rng.Seed(c.Seed, "availability")}.Arriving
	}
	return r
}

// validationReference embeds the validation clients' texts for the Fréchet distance; nil where there are none. It is
// computed without noise: validation clients are not protected. tell, if not nil, is told how many texts are
// embedded.
func validationReference(ctx context.Context, p *clients.Population, encoder embedding.Encoder,
	tell func(done, total int)) (*metrics.Gaussian, error) {
	texts := clients.Texts(p.Split(clients.Validation))
	if len(texts) < 2 {
		return nil, nil
	}
	m, err := embedding.InParts(ctx, embedding.Sentence(encoder), texts, tell)
	if err != nil {
		return nil, err
	}
	return metrics.NewGaussian(m.Data, m.Dim)
}

// diagnostics compares the preference pairs from true and noised sums, for experiments.
func diagnostics(c configs.Config, dir string) *fedsim.UnsafeDiagnostics {
	perPrompt := c.Generate.Samples
	compare := func(q query.Query, truth, noised []float64) (map[string]map[string]float64, error) {
		q, checks := scoring.Unchecked(q)
		truth, noised = truth[:len(truth)-checks], noised[:len(noised)-checks]
		ways := map[string]func([]float64) ([]float64, error){
			"none": func(sum []float64) ([]float64, error) { return sum, nil }}
		switch q := q.(type) {
		case scoring.Cosine:
			ways["project"] = q.Project
		case scoring.NearestVotes:
			if !methods.Of(c).Pairs {
				return nil, nil
			}
		default:
			return nil, nil
		}
		out := map[string]map[string]float64{}
		for name, denoise := range ways {
			figures, err := scoring.Recovered(truth, noised, denoise, perPrompt, c.DPO.RejectedRank)
			if err != nil {
				return nil, err
			}
			out[name] = figures
		}
		return out, nil
	}
	return &fedsim.UnsafeDiagnostics{Dir: dir, Compare: compare}
}
