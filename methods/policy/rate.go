package policy

import (
	"popri/configs"
	"popri/methods/rounds"
	"popri/show/series"
)

// Rate is the peak of a round's learning rates. Under the schedule [configs.Margin] it is optimizer.learning_rate times
// the spread of the round's scores over the spread in round 1, at most optimizer.learning_rate. Near the clients, scores
// hardly differ, and which sample is better is mostly chance: at the whole rate, the samples swing around the clients' texts.
func (p *Policy) Rate(r *rounds.Round, spread func(series.Round) float64) (float64, error) {
	rate := p.Config.Optimizer.LearningRate
	if p.Config.Optimizer.Schedule != configs.Margin || r.Number == 1 {
		return rate, nil
	}
	done, err := rounds.ReadMetrics(p.Dir)
	if err != nil {
		return 0, err
	}
	if share := spread(*r.Figures) / spread(done[0]); share < 1 { // not a number where all scores of round 1 were alike
		rate *= share
	}
	return rate, nil
}
