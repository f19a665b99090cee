package popri

import (
	"slices"

	"popri/configs"
	"popri/methods/method"
	"popri/methods/policy"
	"popri/show/series"
)

// Description describes POPri.
var Description = policy.Describe(method.Description{
	Method: configs.Method{Name: "popri"},
	Words: method.Words{Title: "POPri", About: "trains the generator on preference pairs of the samples that clients " +
		"score", Notes: notes, Paper: paper},
	Pairs:  true,
	Mixes:  true,
	New:    newMethod,
	Series: figures,
	Cost:   cost,
})

// cost adds the pairs, one for each prompt.
func cost(c configs.Config) method.Cost {
	cost := policy.Cost(c)
	cost.Pairs = c.Trainer.Rounds * c.Generate.Prompts
	cost.Trained = cost.Pairs * c.Optimizer.Epochs * (method.PromptTokens(c) + 2*c.Generate.MaxNewTokens)
	return cost
}

// notes adds what trained the adapters.
func notes(c configs.Config) []string {
	notes := policy.Notes(c)
	if c.DPO.Engine == configs.TRL {
		notes = append(notes, "TRL trained the adapters (dpo.engine=trl) on popri's pairs, in its order and with its "+
			"learning rates and reference log-probabilities. After each round, popri compared the loss under the "+
			"adapter with TRL's. Another run may give other bytes.")
	}
	return notes
}

// paper is the method's paper.
const paper = `
@inproceedings{hou2025popri,
  title     = {Private Federated Learning using Preference-Optimized Synthetic Data},
  author    = {Hou, Charlie and Wang, Mei-Yu and Zhu, Yige and Lazar, Daniel and Fanti, Giulia},
  booktitle = {Proceedings of the 42nd International Conference on Machine Learning},
  series    = {PMLR},
  volume    = {267},
  pages     = {24025--24044},
  year      = {2025}
}
`

var figures = series.Set{
	Columns: slices.Concat([]series.Series{
		{Key: chosenKey, Name: "Score chosen", Format: series.Number, Decimals: 4},
		{Key: rejectedKey, Name: "Score rejected", Format: series.Number, Decimals: 4},
		{Key: "loss", Name: "DPO loss", Format: series.Number, Decimals: 4},
		{Key: "rewards/margins", Name: "DPO margin", Format: series.Number, Decimals: 3},
		{Key: "rewards/accuracies", Name: "DPO accuracy", Format: series.Percent, Decimals: 1},
		{Key: "eval_rewards/accuracies", Name: "Held-out accuracy", Format: series.Percent, Decimals: 1},
	}, policy.Measured, []series.Series{
		{Key: "pairs", Name: "Pairs", Format: series.Count},
	}),
	Plots: []series.Plot{
		{Title: "Score of the pairs", Note: "mean noised score of the chosen and the rejected samples",
			Lines: []series.Line{{Key: chosenKey, Name: "chosen"}, {Key: rejectedKey, Name: "rejected"}}},
		policy.FrechetPlot,
		policy.MedoidPlot,
		{Title: "Distance of the pairs", Note: "Fréchet distance of the chosen and of the rejected samples' embeddings",
			Lines: []series.Line{{Key: "fid/chosen", Name: "chosen"}, {Key: "fid/rejected", Name: "rejected"}}},
		{Title: "Preference accuracy", Note: "share of pairs whose chosen side the tuned model prefers", Percent: true,
			Lines: []series.Line{{Key: "rewards/accuracies", Name: "accuracy"}}},
		{Title: "DPO loss", Note: "mean over the round; ln 2 ≈ 0.693 is no preference",
			Lines: []series.Line{{Key: "loss", Name: "loss"}}},
		{Title: "Reward margin", Note: "chosen minus rejected, mean over the round's updates, each before its step",
			Lines: []series.Line{{Key: "rewards/margins", Name: "margin"}}},
	},
}
