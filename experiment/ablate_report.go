package experiment

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"popri/report"
)

// composedNote states what all runs spend together.
func (a *Ablation) composedNote() string {
	var sentences []string
	for _, c := range a.Composed {
		sentences = append(sentences, c.Words("runs")+".")
	}
	return strings.Join(sentences, " ")
}

// writeReport writes the page with table and plot, the guarantee of the first run, and the differences of the other
// runs' guarantees in words.
func (a *Ablation) writeReport(dir string) error {
	first, err := Report(a.Rows[0].Runs[0])
	if err != nil {
		return err
	}
	r := report.Report{Title: "Ablation over " + a.Keys(), Finished: time.Now().UTC().Truncate(time.Second),
		Privacy: first.Privacy, Versions: first.Versions, Settings: first.Settings,
		Subtitle: fmt.Sprintf("%d settings × %d seeds", len(a.Rows), len(a.Seeds)),
		Notes: []string{fmt.Sprintf("The guarantee and the settings shown are those of the run %s. Every run "+
			"spends its own budget on the same clients: publishing all of them, or choosing the best one, "+
			"spends more than one of them states.", a.Rows[0].Runs[0]),
			a.composedNote(),
			"A row is the small model trained on the text of runs with the same settings, a figure for each seed; " +
				"the seeds change prompts, samples, training and fine-tuning. The choice of a setting by these " +
				"figures uses the test clients, who are not protected."}}
	for _, f := range a.Failed {
		r.Notes = append(r.Notes, fmt.Sprintf("A run failed and is not shown: %s.", f.Error))
	}
	accuracy := report.Ablation{Key: a.Keys()}
	gap := report.Ablation{Key: a.Keys(), Metric: "gap closed between ε = 0 and ε = ∞, %"}
	for _, row := range a.Rows {
		accuracy.Points = append(accuracy.Points, report.AblationPoint{Value: strings.Join(row.Values, ", "),
			Figures: row.Accuracy.Values, Default: row.Base})
		if row.GapClosed != nil {
			p := report.AblationPoint{Value: strings.Join(row.Values, ", "), Default: row.Base}
			for _, v := range row.GapClosed.Values {
				p.Figures = append(p.Figures, 100*v)
			}
			gap.Points = append(gap.Points, p)
		}
	}
	r.Ablations = []report.Ablation{accuracy}
	if len(gap.Points) > 0 {
		r.Ablations = append(r.Ablations, gap)
	}
	return report.Write(filepath.Join(dir, ReportFile), r)
}
