package testworld

import (
	"popri/configs"
)

// AskOnce uses one release for all that it can be used for.
func AskOnce(c *configs.Config) {
	c.Method, c.Scoring.Release, c.Scoring.Dim = "popri", "once", 16
	c.Generate.Quote = "relevant"
	c.PublicSelection.Texts = 40
	c.PublicSelection.Weights = "prior"
	c.Warmup.Steps = 6
	c.Synthetic.PublicTexts = 30
}
