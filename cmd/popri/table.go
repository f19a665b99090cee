package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"popri/downstream"
	"popri/experiment"
)

func joined(list []string) string { return strings.Join(list, ", ") }

// evaluationTable prints accuracies, perplexities and the gap closed with their intervals.
func evaluationTable(w io.Writer, e *experiment.Evaluation) error {
	if verdict := e.Verdict(); verdict != "" {
		if _, err := fmt.Fprintf(w, "%s\n\n", verdict); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "trained on\ttexts\taccuracy %\t95 % interval\tperplexity\tgap closed %\t95 % interval")
	for _, r := range e.Results {
		gap := ""
		if r.GapClosed != nil {
			gap = fmt.Sprintf("%.1f", 100**r.GapClosed)
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%s\t%.1f\t%s\t%s\n", r.Name, r.Texts, 100*r.Accuracy,
			percentages(r.AccuracyCI, 2), r.Perplexity, gap, percentages(r.GapClosedCI, 1))
	}
	if err := t.Flush(); err != nil || e.PublicDistance == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", e.PublicDistance)
	return err
}

// percentages prints an interval of shares, or nothing for nil.
func percentages(i *downstream.Interval, decimals int) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("%.*f … %.*f", decimals, 100*i[0], decimals, 100*i[1])
}
