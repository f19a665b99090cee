package testworld

import (
	"popri/configs"
)

// AskOnce uses one release for all that it can be used for.
func AskOnce(c *configs.Config) {
	c.Method, c.Scoring.Release, c.Scoring.Dim = "popri", "once", 16
	c.Generate.Quote, c.Synthetic.Examples = "relevant", "relevant"
	c.PublicSelection.Texts, c.PublicSelection.Head = 40, 5
	c.PublicSelection.Rows, c.PublicSelection.Weights = 50, "prior"
	c.Warmup.Steps, c.Warmup.Batch, c.Warmup.LearningRate = 6, 8, 5e-3
	c.Synthetic.PublicTexts = 30
}
