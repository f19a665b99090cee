package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"popri/experiment"
)

func joined(list []string) string { return strings.Join(list, ", ") }

// evaluationTable prints accuracies, perplexities and the gap closed with their intervals.
func evaluationTable(w io.Writer, e *experiment.Evaluation) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "trained on\ttexts\taccuracy %\t95 % interval\tperplexity\tgap closed %\t95 % interval")
	for _, r := range e.Results {
		gap, ci := "", ""
		if r.GapClosed != nil {
			gap = fmt.Sprintf("%.1f", 100**r.GapClosed)
		}
		if r.GapClosedCI != nil {
			ci = fmt.Sprintf("%.1f … %.1f", 100*r.GapClosedCI[0], 100*r.GapClosedCI[1])
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f … %.2f\t%.1f\t%s\t%s\n", r.Name, r.Texts, 100*r.Accuracy, 100*r.AccuracyCI[0], 100*r.AccuracyCI[1], r.Perplexity, gap, ci)
	}
	return t.Flush()
}
