package target

import (
	"fmt"

	"popri/configs"
	"popri/methods/method"
	"popri/model/embedding"
	"popri/scoring"
)

// Query is what clients are asked.
func Query(c configs.Config) (name string, bound float64) {
	return scoring.MeanNameOf(options(c)), c.Scoring.ClipNorm
}

// Checks is the number of values of a release that hold noise alone. With 1024 of them, an audit finds noise of 0.85 of
// the charged one with a probability of 99 %.
const Checks = 1024

func options(c configs.Config) scoring.MeanOptions {
	return scoring.MeanOptions{Full: true, Bound: c.Scoring.ClipNorm, Checks: Checks}
}

// Asked says in words what clients are asked for.
func Asked(c configs.Config) string {
	form, words := embedding.Parts(c.Scoring.Form, c.Scoring.Words)
	switch {
	case form > 0 && words > 0:
		return fmt.Sprintf("their mean embedding with %d measures of form and %d of words", form, words)
	case form > 0:
		return fmt.Sprintf("their mean embedding with %d measures of form", form)
	case words > 0:
		return fmt.Sprintf("their mean embedding with %d measures of words", words)
	}
	return "their mean embedding"
}

// Note says how the release is read, for the report.
func Note(c configs.Config) string {
	return "The clients were asked once, for " + Asked(c) + ". Every score of a sample and of a public text follows " +
		"from that release and costs no privacy."
}

// Traffic is what a client sends and receives, once: its answer for the public texts' mean embedding.
func Traffic(c configs.Config) method.Traffic {
	form, words := embedding.Parts(c.Scoring.Form, c.Scoring.Words)
	dim := c.Scoring.Dim + form + words
	return method.Traffic{Sent: dim + Checks, Received: dim}
}
