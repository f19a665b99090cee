package evolution

import (
	"context"
	"fmt"
	"slices"

	"popri/datasets"
	"popri/internal/rng"
)

// Round is a population with its selection.
type Round struct {
	Population Population
	Selection  Selection
}

// Survivors returns the selected texts that the prompts of the synthetic set quote, in order of the rounds: of each
// round, every text once (main.py and llama_bootstrap.py of PrE-Text). A text that several rounds selected is there for
// each of them. Rounds that kept their parents selected nothing and are left out, unless all did.
func (e *Evolution) Survivors(rounds []Round) []datasets.Text {
	kept := func(r Round) bool { return r.Selection.Kept }
	if voted := slices.DeleteFunc(slices.Clone(rounds), kept); len(voted) > 0 {
		rounds = voted
	}
	var out []datasets.Text
	for _, r := range rounds {
		seen := map[string]bool{}
		for _, i := range r.Selection.Indices() {
			if s := r.Population.Samples[i]; !seen[s.Text] {
				seen[s.Text] = true
				out = append(out, datasets.Text{Text: s.Text, Label: s.Label})
			}
		}
	}
	return out
}

// Expand writes the n texts of the synthetic set from prompts that each quote generate.examples survivors, 3 in
// PrE-Text, at different indices of the list. Part names a piece of the set that is written in one call, so that a set
// can be written in several; texts that the model left empty are "". Survivors with labels are quoted with survivors of
// the same label.
func (e *Evolution) Expand(ctx context.Context, survivors []datasets.Text, n int, part string) ([]string, error) {
	if len(survivors) == 0 {
		return nil, fmt.Errorf("evolution: no text was selected to expand")
	}
	stream := []string{"evolution", "expand", part}
	random := rng.New(e.seed, stream...)
	requests := make([]Request, n)
	for i := range requests {
		quotes, label := draw(survivors, e.quotes, random)
		requests[i] = Request{Kind: Expand, Quotes: quotes, Label: label}
	}
	written, err := e.writer.Write(ctx, requests, rng.Seed(e.seed, stream...))
	if err != nil {
		return nil, fmt.Errorf("evolution: expansion %s: writing %d texts: %w", part, n, err)
	}
	return written, nil
}
