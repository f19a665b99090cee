package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"popri/eval/downstream"
	"popri/run/evaluation"
)

func joined(list []string) string { return strings.Join(list, ", ") }

// evaluationTable prints accuracies, perplexities or macro F1, and the gap closed with their intervals.
func evaluationTable(w io.Writer, e *evaluation.Outcome) error {
	if verdict := e.Verdict(); verdict != "" {
		if _, err := fmt.Fprintf(w, "%s\n\n", verdict); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	head := "perplexity"
	if e.Task != "" {
		head = "macro F1 %\t95 % interval"
	}
	fmt.Fprintf(t, "trained on\ttexts\taccuracy %%\t95 %% interval\t%s\tgap closed %%\t95 %% interval\n", head)
	for _, r := range e.Results {
		second := fmt.Sprintf("%.1f", r.Perplexity)
		if r.MacroF1 != nil {
			second = fmt.Sprintf("%.2f\t%s", 100**r.MacroF1, percentages(r.MacroF1CI, 2))
		}
		gap := ""
		if r.GapClosed != nil {
			gap = fmt.Sprintf("%.1f", 100**r.GapClosed)
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%s\t%s\t%s\t%s\n", r.Name, r.Texts, 100*r.Accuracy,
			percentages(r.AccuracyCI, 2), second, gap, percentages(r.GapClosedCI, 1))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, note := range e.Notes {
		if _, err := fmt.Fprintf(w, "\n%s\n", note); err != nil {
			return err
		}
	}
	if e.PublicDistance == nil {
		return nil
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
