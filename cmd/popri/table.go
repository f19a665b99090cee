package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"popri/eval/downstream"
	"popri/internal/numeric"
	"popri/run/evaluation"
)

func joined(list []string) string { return strings.Join(list, ", ") }

// evaluationTable prints accuracies, perplexities or macro F1, and the gap closed with their intervals.
func evaluationTable(w io.Writer, e *evaluation.Outcome) {
	if verdict := e.Verdict(); verdict != "" {
		fmt.Fprintf(w, "%s\n\n", verdict)
	}
	writeColumns(w, e.Results, evaluationColumns(e))
	notes := e.Notes
	if why := e.NoGap(); why != "" {
		notes = append([]string{why}, notes...)
	}
	for _, note := range notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	if e.PublicDistance != nil {
		fmt.Fprintf(w, "\n%s\n", e.PublicDistance)
	}
}

// column is a column of a table of results.
type column struct {
	head string
	cell func(downstream.Result) string
}

func evaluationColumns(e *evaluation.Outcome) []column {
	number := func(v *float64, scale float64, decimals int) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf("%.*f", decimals, scale**v)
	}
	percent := func(v *float64, decimals int) string { return number(v, 100, decimals) }
	interval := func(of func(downstream.Result) *downstream.Interval, decimals int) column {
		return column{"95 % interval", func(r downstream.Result) string {
			if i := of(r); i != nil {
				return fmt.Sprintf("%.*f … %.*f", decimals, 100*i[0], decimals, 100*i[1])
			}
			return ""
		}}
	}
	list := []column{
		{"trained on", func(r downstream.Result) string { return r.Name }},
		{"texts", func(r downstream.Result) string { return strconv.Itoa(r.Texts) }},
		{"accuracy %", func(r downstream.Result) string { return percent(&r.Accuracy, 2) }},
		interval(func(r downstream.Result) *downstream.Interval { return r.AccuracyCI }, 2),
	}
	if e.Classifies() {
		list = append(list, column{"macro F1 %", func(r downstream.Result) string { return percent(r.MacroF1, 2) }},
			interval(func(r downstream.Result) *downstream.Interval { return r.MacroF1CI }, 2))
	} else {
		list = append(list,
			column{"perplexity", func(r downstream.Result) string { return number(&r.Perplexity, 1, 1) }},
			column{"bits a character", func(r downstream.Result) string { return number(r.Bits, 1, 3) }},
			column{"keystrokes saved %", func(r downstream.Result) string { return percent(r.Saved, 1) }})
	}
	return append(list, column{"gap closed %", func(r downstream.Result) string { return percent(r.GapClosed, 1) }},
		interval(func(r downstream.Result) *downstream.Interval { return r.GapClosedCI }, 1))
}

// writeColumns prints a table without the columns in which no row has anything; an empty cell is a dash.
func writeColumns(w io.Writer, results []downstream.Result, columns []column) {
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return !slices.ContainsFunc(results, func(r downstream.Result) bool { return c.cell(r) != "" })
	})
	line := func(cell func(column) string) {
		cells := numeric.Map(columns, func(c column) string { return cmp.Or(cell(c), "–") })
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(c column) string { return c.head })
	for _, r := range results {
		line(func(c column) string { return c.cell(r) })
	}
}
