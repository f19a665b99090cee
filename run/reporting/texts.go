package reporting

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"popri/configs"
	"popri/internal/rows"
	"popri/internal/rundir"
	"popri/methods"
	"popri/methods/sampling"
	"popri/show/report"
	"popri/show/texts"
)

// alike is the number of samples of each kind that the report has of what the model writes for the same prompts before
// and after its training.
const alike = 2000

// roundTexts reads the samples of all rounds of a run that have some, also of the round under way, for the report.
func roundTexts(dir string, c *configs.Config, rounds int) (report.Texts, error) {
	var out report.Texts
	index := map[string]int{} // of the prompts
	prompt := func(round, number int, text string) int {
		key := text
		if key == "" {
			key = fmt.Sprintf("\x00%d %d", round, number) // unknown prompts are not the same
		}
		i, ok := index[key]
		if !ok {
			i = len(out.Prompts)
			index[key] = i
			out.Prompts = append(out.Prompts, text)
		}
		return i
	}
	for n := 1; n <= rounds; n++ {
		r, err := texts.Read(dir, n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		for _, s := range r.Samples {
			if s.Prompt >= 0 {
				s.Prompt = prompt(n, s.Prompt, r.Prompts[s.Prompt])
			}
			out.Samples = append(out.Samples, report.Text{Round: n, Sample: s})
		}
	}
	before, after, err := samePrompts(dir, c, rounds)
	if err != nil {
		return out, err
	}
	add := func(list []sampling.Row, round int) {
		list = slices.DeleteFunc(list, func(s sampling.Row) bool { return s.Finish == sampling.Public })
		for _, s := range list[:min(alike, len(list))] {
			// One key for both kinds: their prompts are the same, and their text is not stored.
			out.Samples = append(out.Samples, report.Text{Round: round, Sample: texts.Sample{
				Prompt: prompt(report.BeforeTraining, int(s.Prompt), ""), Text: s.Text, Score: math.NaN()}})
		}
	}
	if len(before) > 0 && len(after) > 0 {
		add(before, report.BeforeTraining)
		add(after, report.AfterTraining)
	}
	return out, nil
}

// samePrompts returns what the untuned and the tuned model wrote for the same prompts. Both wrote for the same ones
// only if the tuned model's quote nothing that the rounds have made. Methods that tune no model have none.
func samePrompts(dir string, c *configs.Config, rounds int) (before, after []sampling.Row, err error) {
	if c.Generate.Quote != "public" || methods.Of(*c).Trains != configs.Generator {
		return nil, nil, nil
	}
	read := rows.Optional[sampling.Row]
	if before, err = read(filepath.Join(dir, rundir.Untuned)); err != nil || before == nil {
		return nil, nil, err
	}
	if c.Synthetic.PublicTexts == 0 && c.Synthetic.Kept == 1 {
		after, err = read(filepath.Join(dir, rundir.Synthetic))
		return before, after, err
	}
	for n := rounds; n > 0 && after == nil && err == nil; n-- { // the synthetic set is a choice of these
		after, err = read(filepath.Join(rundir.Round(dir, n), rundir.Written))
	}
	return before, after, err
}
