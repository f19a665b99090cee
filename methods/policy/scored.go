package policy

import (
	"fmt"
	"path/filepath"
	"sort"

	"popri/datasets"
	"popri/internal/rows"
	"popri/query"
	"popri/rundir"
	"popri/sampling"
	"popri/scoring"
)

// Uses of the clients' released scores besides the pairs. All of it is post-processing of charged releases.

// scoredRound reads a finished round's samples with their scores.
func (p *Policy) scoredRound(round int) ([]sampling.Row, []ScoreRow, error) {
	dir := rundir.Round(p.Dir, round)
	samples, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Samples))
	if err != nil {
		return nil, nil, err
	}
	scores, err := rows.Read[ScoreRow](filepath.Join(dir, ScoresFile))
	if err != nil {
		return nil, nil, err
	}
	if len(samples) != len(scores) {
		return nil, nil, fmt.Errorf("policy: %s holds %d samples and %d scores", dir, len(samples), len(scores))
	}
	return samples, scores, nil
}

// bestScored returns the samples of the first done rounds with the highest post-processed scores, a tenth of each round's, without
// repetitions. Samples that did not end by themselves are left out, because a prompt should quote whole texts.
func (p *Policy) bestScored(done int) ([]datasets.Text, error) {
	var out []datasets.Text
	seen := map[string]bool{}
	for round := 1; round <= done; round++ {
		samples, scores, err := p.scoredRound(round)
		if err != nil {
			return nil, err
		}
		order := make([]int, len(scores))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(a, b int) bool { return scores[order[a]].Score > scores[order[b]].Score })
		for _, i := range order[:(len(order)+9)/10] {
			s := samples[i]
			if s.Finish == "stop" && s.Text != "" && !seen[s.Text] && len(s.IDs) <= p.Config.Data.MaxTokens {
				seen[s.Text] = true
				out = append(out, datasets.Text{Text: s.Text, Label: s.Label})
			}
		}
	}
	if len(out) < max(1, p.Config.Generate.Examples) {
		return nil, fmt.Errorf("policy: only %d scored samples can be quoted in prompts; set generate.quote and synthetic.examples "+
			"to public", len(out))
	}
	return out, nil
}

// gainClients is the largest number of clients made of public texts that replace the real ones when the scale of scores is
// measured.
const gainClients = 512

// gain measures the factor by which normalising and clipping scale a client's cosines, on clients made of successive
// public texts (see scoring.Groups). They are embedded once.
func (p *Policy) gain(samples *scoring.Samples) (float64, error) {
	if p.standIns.Clients == 0 {
		var err error
		if p.standIns, err = p.publicClients(); err != nil {
			return 0, err
		}
	}
	return samples.Gain(p.standIns)
}

func (p *Policy) publicClients() (query.Means, error) {
	texts := p.Prompter.Texts()
	starts, each := scoring.Groups(len(texts), scoring.ClientTexts, gainClients)
	var chosen []string
	offsets := []int{0}
	for _, at := range starts {
		chosen = append(chosen, texts[at:at+each]...)
		offsets = append(offsets, len(chosen))
	}
	vectors, err := p.Encoder.Encode(chosen)
	if err != nil {
		return query.Means{}, err
	}
	return query.MeanEmbeddings(vectors, offsets)
}
