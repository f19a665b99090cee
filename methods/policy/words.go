package policy

import (
	"fmt"

	"popri/configs"
)

// How pages describe the texts of a tuned model and of the untuned model.
const (
	Product = "tuned by the clients' noised scores"
	Untuned = "same generator, prompts and seeds, without adapters"
)

// Work describes what clients score in a round.
func Work(c configs.Config) string {
	return fmt.Sprintf("%d prompts × %d samples", c.Generate.Prompts, c.Generate.Samples)
}

// Denoise says how noise is removed from a release.
func Denoise(c configs.Config) string { return c.Scoring.Denoise }

// Notes say how releases are read, for the report.
func Notes(c configs.Config) []string {
	var notes []string
	if c.Scoring.Denoise == "project" {
		notes = append(notes, "After its release, each sum was projected onto the space in which the true sum lies, which takes noise out. The projection uses the released sum and the samples only, so it costs no privacy.")
	}
	if c.Scoring.Objective == "witness" {
		notes = append(notes, "Samples are ranked by how much more they resemble the clients' texts than one another. The ranking is computed from the same sums.")
	}
	return notes
}
