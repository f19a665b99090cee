package evolution

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"popri/configs"
	"popri/datasets"
	"popri/internal/numeric"
	"popri/internal/rng"
)

// The values of private_evolution.variant.
const (
	PreText = "pre_text"
	AugPE   = "aug_pe"
)

// rules are what the variants do differently, each as in its published code where the configuration does not say
// otherwise.
type rules struct {
	variation  Kind
	variations int // of each selected text, which stays in the population with them; 0: one variation replaces it
	// lookAhead is the number of variations of a sample whose mean embedding represents it in the vote, so that clients
	// vote on what a text becomes; 0 takes the sample's own embedding.
	lookAhead int
	byRank    bool // select the samples with the most votes, instead of drawing in proportion to the votes
	// share is the mean fraction of a text's words that Fill and Blank write again, and passes how often a masked model
	// does so. A smaller share hardly varies the texts, a larger one loses what was selected.
	share  float64
	passes int
	// ends says that the selected texts of the last round are the synthetic set, instead of texts by prompts that quote all
	// survivors.
	ends bool
}

// rulesOf are the rules under a valid configuration.
func rulesOf(c Settings) rules {
	r := rules{variation: Fill, lookAhead: 4, share: 0.3, passes: 2}
	if c.Variant == AugPE {
		r = rules{variation: Rephrase, variations: c.Variations, byRank: true, share: 0.5, passes: 1, ends: true}
	}
	if c.Variation != "" {
		r.variation = Kind(c.Variation)
	}
	return r
}

// votedOn is the number of samples that clients vote on in each round.
func (r rules) votedOn(population int) int { return population * (1 + r.variations) }

// written is the number of texts that the model writes in all rounds: variations and look-ahead.
func written(c configs.Config) int {
	s := settings.Of(c)
	r, n, rounds := rulesOf(s), s.Population, c.Trainer.Rounds
	ahead := rounds * r.lookAhead * r.votedOn(n)
	if r.variations == 0 {
		return ahead + (rounds-1)*n // the first population is public text
	}
	return ahead + rounds*n*r.variations
}

// Evolution makes populations of texts. It keeps no state between rounds: a population and its selection are the whole
// state.
type Evolution struct {
	config Settings
	rules  rules
	quotes int // the largest number of texts in a request, its parent included
	seed   uint64
	writer Writer
}

// newEvolution prepares an evolution from the sections private_evolution and generate (examples) and the seed of a valid
// configuration.
func newEvolution(c configs.Config, writer Writer) *Evolution {
	p := settings.Of(c)
	return &Evolution{config: p, rules: rulesOf(p), quotes: c.Generate.Examples, seed: c.Seed, writer: writer}
}

// Len returns the number of samples that clients vote on in each round: N for PrE-Text, N·L for Aug-PE, where L is one
// more than the number of variations.
func (e *Evolution) Len() int { return e.rules.votedOn(e.config.Population) }

// Start returns the population of round 1: N public texts, drawn with replacement, and under Aug-PE the variations of
// each. No text may be blank. (PrE-Text draws from texts of more than 20 words; which texts are long enough is for the
// caller.)
func (e *Evolution) Start(ctx context.Context, public []datasets.Text) (Population, error) {
	if len(public) == 0 {
		return Population{}, fmt.Errorf("evolution: there are no public texts to start from")
	}
	random := e.stream(0, "start")
	p := Population{Round: 1}
	for range e.config.Population {
		i := random.IntN(len(public))
		if strings.TrimSpace(public[i].Text) == "" {
			return Population{}, fmt.Errorf("evolution: public text %d is blank", i)
		}
		p.Samples = append(p.Samples, Sample{Text: public[i].Text, Parent: -1, Kind: Public, Label: public[i].Label})
	}
	if e.rules.variations == 0 {
		return p, nil
	}
	children, err := e.vary(ctx, p.Samples, e.rules.variations, 0)
	if err != nil {
		return Population{}, err
	}
	p.Samples = append(p.Samples, children...)
	return p, nil
}

// Select turns the released votes, one for each sample of p, into a selection of N samples by the variant's rule. It is
// post-processing and costs no privacy.
func (e *Evolution) Select(p Population, released []float64) Selection {
	counts := threshold(released, e.config.Threshold)
	if e.rules.byRank {
		return rank(counts, e.config.Population)
	}
	return resample(counts, e.config.Population, e.stream(p.Round, "select"))
}

// Next returns the population of the next round. PrE-Text replaces each selected sample by one variation. Aug-PE keeps
// the selected samples, which are the first N of the new population, and adds the variations of each: first one of all,
// then the second of all, and so on.
func (e *Evolution) Next(ctx context.Context, p Population, s Selection) (Population, error) {
	parents := s.Indices()
	selected := numeric.Pick(p.Samples, parents)
	next := Population{Round: p.Round + 1}
	copies := max(1, e.rules.variations)
	if e.rules.variations > 0 {
		for i, sample := range selected {
			next.Samples = append(next.Samples, Sample{Text: sample.Text, Parent: parents[i], Kind: Kept,
				Generation: sample.Generation, Label: sample.Label})
		}
	}
	children, err := e.vary(ctx, selected, copies, p.Round)
	if err != nil {
		return Population{}, err
	}
	for i := range children {
		children[i].Parent = parents[i%len(parents)]
	}
	next.Samples = append(next.Samples, children...)
	return next, nil
}

// vary writes copies variations of each sample, after the votes of a round: sample j of the result varies sample j mod
// len(samples), whose index is its parent. An empty variation is replaced by the parent.
func (e *Evolution) vary(ctx context.Context, samples []Sample, copies, round int) ([]Sample, error) {
	written, err := e.write(ctx, samples, copies, round, "vary")
	if err != nil {
		return nil, err
	}
	out := make([]Sample, len(written))
	for j, text := range written {
		parent := j % len(samples)
		out[j] = samples[parent]
		if out[j].Parent, out[j].Kind = parent, Kept; text != "" {
			out[j].Text, out[j].Kind = text, e.rules.variation
			out[j].Generation++
		}
	}
	return out, nil
}

// write asks for copies variations of each sample, in the order of [Evolution.vary]. Blank ones are returned as "".
func (e *Evolution) write(ctx context.Context, samples []Sample, copies, round int, stage string) ([]string, error) {
	random := e.stream(round, stage)
	quotable := Population{Samples: samples}.quotable()
	requests := make([]Request, 0, copies*len(samples))
	for range copies {
		for i := range samples {
			requests = append(requests, e.variation(quotable, i, random))
		}
	}
	written, err := e.writer.Write(ctx, requests, rng.Seed(e.seed, path(round, stage)...))
	if err != nil {
		return nil, fmt.Errorf("evolution: round %d: writing %d variations: %w", round, len(requests), err)
	}
	out := make([]string, len(written))
	for i, text := range written {
		if strings.TrimSpace(text) != "" {
			out[i] = strings.ToValidUTF8(text, "\uFFFD")
		}
	}
	return out, nil
}

func (e *Evolution) stream(round int, stage string) *rand.Rand {
	return rng.New(e.seed, path(round, stage)...)
}

// path names the stream of a stage that follows the votes of a round; round 0 precedes the first.
func path(round int, stage string) []string {
	return []string{"evolution", "round", strconv.Itoa(round), stage}
}
