package testworld

import (
	"popri/configs"
)

// AskOnce uses one release for all that it can be used for.
func AskOnce(c *configs.Config) {
	c.Method, c.Scoring.Release, c.Scoring.Dim = "popri", "once", 16
	c.Generate.Quote = "relevant"
	Set(c, "public_selection.texts=40", "public_selection.weights=prior")
	c.Synthetic.PublicTexts = 30
}
