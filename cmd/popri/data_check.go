package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"popri/datasets/clients"
	"popri/internal/quote"
)

// dataProblem is one bad row as --json shows it. No cell of the file is in it.
type dataProblem struct {
	Row       *int64 `json:"row,omitempty"`        // counts from 0
	ClientRow *int64 `json:"client_row,omitempty"` // the first row of the row's client, where that is another one
	Kind      string `json:"kind"`
	Message   string `json:"message"`
	Warning   bool   `json:"warning"` // a run tolerates the problem
}

// dataChecked is the output of `data check`.
type dataChecked struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Error    string         `json:"error,omitempty"` // why the file cannot be read at all
	Counts   map[string]int `json:"counts,omitempty"`
	Problems []dataProblem  `json:"problems"` // of each kind the first ones, unless all are asked for
}

// shownRows is the number of bad rows of each kind that `data check` lists.
const shownRows = 20

// firstOfEach returns the first n problems of each kind and how many there are of each.
func firstOfEach(problems []clients.Problem, n int) (first []clients.Problem, counts map[string]int) {
	counts = map[string]int{}
	for _, p := range problems {
		if counts[p.Kind]++; counts[p.Kind] <= n {
			first = append(first, p)
		}
	}
	return first, counts
}

func (a *app) dataCheck() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Name the bad rows of a client file",
		Long: fmt.Sprintf(`Reads a client file in either layout and names the rows that break the schema's rules, the first %d of each kind. Rows
count from 0. No cell is quoted, because a cell may hold a client's text if columns are swapped. The exit code is 2 if there
is anything to name or the file cannot be read. A warning is a problem that a run tolerates.

If rows have labels, warnings name the rows without one (in train only if other train rows have one), and of each
label that validation or test has and train lacks, the first row.`, shownRows),
		Example: "  popri data check clients.parquet\n  popri data check clients.parquet --all --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			most := shownRows
			if all {
				most = math.MaxInt
			}
			return a.checkData(args[0], most)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "name every bad row")
	return cmd
}

// checkData lists the problems of a client file, up to the given number of rows of each kind.
func (a *app) checkData(file string, most int) error {
	problems, err := clients.Check(file)
	shown, counts := firstOfEach(problems, most)
	result := dataChecked{File: file, Counts: counts, Problems: []dataProblem{}}
	for _, p := range shown {
		result.Problems = append(result.Problems, dataProblem{rowOrNil(p.Row), rowOrNil(p.ClientRow), p.Kind,
			p.Message, p.Warning})
	}
	switch {
	case err != nil:
		result.Error = err.Error()
	case len(problems) > 0:
		err = fmt.Errorf("%s: %s", file, quote.Count(len(problems), "problem", ""))
	default:
		result.OK = true
		if population, err := clients.Read(file); err == nil {
			a.warnOfSplits(file, population.Info().Splits)
		}
	}
	failed := a.emit(result, func(w io.Writer) {
		for _, p := range shown {
			warning := ""
			if p.Warning {
				warning = "warning: "
			}
			fmt.Fprintf(w, "%s: %s%s\n", file, warning, p)
		}
		for _, kind := range slices.Sorted(maps.Keys(counts)) {
			if n := counts[kind]; n > most {
				fmt.Fprintf(w, "%s: %d more of %d: %s (--all names them)\n", file, n-most, n, kind)
			}
		}
		if result.OK {
			fmt.Fprintf(w, "%s: no bad rows\n", file)
		}
	})
	return cmp.Or(failed, usage(err))
}

func rowOrNil(row int64) *int64 {
	if row < 0 {
		return nil
	}
	return &row
}
