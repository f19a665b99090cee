package testworld

import (
	"popri/configs"
)

// AskOnce uses one release for all that it can be used for.
func AskOnce(c *configs.Config) {
	c.Method, c.Scoring.Release, c.Scoring.Dim = "popri", "once", 16
	c.Generate.Quote = "relevant"
	c.PublicSelection.Texts = 40
	c.PublicSelection.Rows, c.PublicSelection.Weights = 70, "prior" // 3 copies of the head, 1 of the others
	c.Warmup.Steps, c.Warmup.LearningRate = 6, 5e-3
	c.Synthetic.PublicTexts = 30
}
