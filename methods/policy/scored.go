package policy

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"popri/datasets"
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
		single, err := p.single()
		if err != nil {
			return nil, err
		}
		chosen, err := single.relevant()
		if err != nil {
			return nil, err
		}
		return p.Prompter.With(p.Prompter.Fitting(target.Texts(chosen))), nil
	case "scored":
		return p.best(done, p.scoredRound)
	}
	form, err := p.form()
	if err != nil || form.Style == "" {
		return p.Prompter, err
	}
	return p.Prompter.Written(form.Style.Write), nil
}

// scored are the samples of a round and their post-processed scores.
type scored struct {
	samples []sampling.Row
	scores  []float64
}

// scoredRound reads a finished round's samples with their scores.
func (p *Policy) scoredRound(round int) (out scored, err error) {
	dir := rundir.Round(p.Dir, round)
	if out.samples, err = rows.Read[sampling.Row](filepath.Join(dir, rundir.Samples)); err != nil {
		return out, err
	}
	list, err := rows.Read[ScoreRow](filepath.Join(dir, ScoresFile))
	if err != nil {
		return out, err
	}
	if len(out.samples) != len(list) {
		return out, fmt.Errorf("policy: %s holds %d samples and %d scores", dir, len(out.samples), len(list))
	}
	for _, row := range list {
		out.scores = append(out.scores, row.Score)
	}
	return out, nil
}

// best returns the prompter that quotes the samples of the first done rounds with the highest scores, a tenth of each
// round's, without repetitions.
func (p *Policy) best(done int, of func(round int) (scored, error)) (*sampling.Prompter, error) {
	form, err := p.form()
	if err != nil {
		return nil, err
	}
	var out []datasets.Text
	seen := map[string]bool{}
	for round := 1; round <= done; round++ {
		x, err := of(round)
		if err != nil {
			return nil, err
		}
		order := make([]int, len(x.scores))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(a, b int) bool { return x.scores[order[a]] > x.scores[order[b]] })
		for _, i := range order[:(len(order)+9)/10] {
			text := form.Style.Write(quotable(x.samples[i]))
			if text != "" && !seen[text] {
				seen[text] = true
				out = append(out, datasets.Text{Text: text, Label: x.samples[i].Label, Kind: x.samples[i].Kind})
			}
		}
	}
	if out = p.Prompter.Fitting(out); len(out) < max(1, p.Config.Generate.Examples) {
		return nil, fmt.Errorf("policy: only %d scored samples can be quoted in prompts; set generate.quote "+
			"to public", len(out))
	}
	return p.Prompter.With(out), nil
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
