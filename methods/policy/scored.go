package policy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"popri/datasets"
	"popri/internal/numeric"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods/sampling"
	"popri/methods/target"
)

// quoting returns the prompter that quotes what a setting names: "public", all public texts; "relevant", the selected
// ones; "scored", the best-scored samples of the first done rounds, and where there is none, the selected texts, or all
// public ones if the clients are asked in each round.
func (p *Policy) quoting(what string, done int) (*sampling.Prompter, error) {
	if what == "scored" && done == 0 {
		single, err := p.single()
		switch {
		case err != nil:
			what = "public"
		case single.found != nil:
			return p.Prompter.With(single.found), nil
		default:
			what = "relevant"
		}
	}
	switch what {
	case "relevant":
		chosen, err := p.relevant()
		if err != nil {
			return nil, err
		}
		return p.fitting(target.Texts(chosen), "selected public texts")
	case "scored":
		var texts []datasets.Text
		for round := 1; round <= done; round++ {
			best, err := p.bestOf(round)
			if err != nil {
				return nil, err
			}
			texts = append(texts, best...)
		}
		return p.quotingSamples(texts)
	}
	form, err := p.form()
	if err != nil || form.Style == "" {
		return p.Prompter, err
	}
	return p.Prompter.Written(form.Style.Write), nil
}

// bestOf returns the texts of the tenth of a finished round's samples with the highest post-processed scores.
func (p *Policy) bestOf(round int) ([]datasets.Text, error) {
	dir := rundir.Round(p.Dir, round)
	samples, err := rows.Read[sampling.Row](filepath.Join(dir, rundir.Samples))
	if err != nil {
		return nil, err
	}
	list, err := rows.Read[ScoreRow](filepath.Join(dir, ScoresFile))
	if err != nil {
		return nil, err
	}
	if len(samples) != len(list) {
		return nil, fmt.Errorf("policy: %s holds %d samples and %d scores", dir, len(samples), len(list))
	}
	return p.best(samples, func(i int) float64 { return list[i].Score })
}

// best returns the texts of the tenth of samples with the highest scores, as prompts quote them.
func (p *Policy) best(samples []sampling.Row, score func(i int) float64) (out []datasets.Text, err error) {
	form, err := p.form()
	if err != nil {
		return nil, err
	}
	order := numeric.SortedIndices(len(samples), func(a, b int) int { return cmp.Compare(score(b), score(a)) })
	for _, i := range order[:(len(order)+9)/10] {
		out = append(out, datasets.Text{Text: form.Style.Write(quotable(samples[i])), Label: samples[i].Label, Kind: samples[i].Kind})
	}
	return out, nil
}

// quotingSamples returns the prompter that quotes texts of samples, without empty ones and repetitions.
func (p *Policy) quotingSamples(texts []datasets.Text) (*sampling.Prompter, error) {
	var out []datasets.Text
	seen := map[string]bool{}
	for _, x := range texts {
		if x.Text != "" && !seen[x.Text] {
			seen[x.Text] = true
			out = append(out, x)
		}
	}
	return p.fitting(out, "scored samples")
}

// fitting returns the prompter that quotes the texts that fit.
func (p *Policy) fitting(texts []datasets.Text, what string) (*sampling.Prompter, error) {
	fit := p.Prompter.Fitting(texts)
	if least := max(1, p.Config.Generate.Examples); len(fit) < least {
		return nil, fmt.Errorf("policy: only %d of %d %s have at most %d tokens (data.max_tokens), and a prompt quotes %d: set "+
			"generate.quote to public", len(fit), len(texts), what, p.Config.Data.MaxTokens, least)
	}
	return p.Prompter.With(fit), nil
}

// quotable is the part of a sample that a prompt quotes: whole sentences or lines, because a model continues with what it
// is shown. A sample that was cut and has neither end in its second half loses its last word, of which a part may be
// missing.
func quotable(s sampling.Row) string {
	if s.Finish == "stop" {
		return s.Text
	}
	last := strings.LastIndexFunc(s.Text, func(r rune) bool { return strings.ContainsRune(".!?\n", r) })
	if 2*last >= len(s.Text) {
		return strings.TrimSpace(s.Text[:last+1])
	}
	return s.Text[:max(0, strings.LastIndexByte(s.Text, ' '))]
}
