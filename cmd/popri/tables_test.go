package main

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"popri/internal/rundir"
	"popri/testkit/golden"
	"popri/testkit/testfile"
)

// A marker in a page is followed by a table of docs/figures: all of it, or the named columns and rows, from 1.
var marker = regexp.MustCompile(`(?m)^<!-- table (\S+)(?: columns ([\d ]+))?(?: rows ([\d ]+))? -->\n(?:\|.*\n)*`)

// TestReferencePageTables: the figures of a page equal the figures in docs/figures, whose files name their origin.
func TestReferencePageTables(t *testing.T) {
	for name, page := range markdown(t) {
		if !marker.MatchString(page) {
			continue
		}
		golden.Page(t, "../"+name, []byte(marker.ReplaceAllStringFunc(page, func(s string) string {
			m := marker.FindStringSubmatch(s)
			head, _, _ := strings.Cut(s, "\n")
			if m[1] == "files" {
				return head + "\n" + filesTable()
			}
			return head + "\n" + resultTable(t, m[1], strings.Fields(m[2]), strings.Fields(m[3]))
		})))
	}
}

// filesTable is the list of a run's files.
func filesTable() string {
	table := "| file | holds | who may read it |\n|---|---|---|\n"
	for _, f := range rundir.Files {
		table += "| `" + f.Name + "` | " + f.Holds + " | " + string(f.Reader) + " |\n"
	}
	return table
}

// resultTable is a file of docs/figures as Markdown.
func resultTable(t *testing.T, name string, columns, rows []string) string {
	t.Helper()
	content := testfile.Read(t, golden.Repository("docs", "figures", name))
	for _, origin := range []string{"# command: ", "# seeds: ", "# cpu: ", "# date: ", "# recorded in: "} {
		if !strings.Contains(string(content), origin) {
			t.Errorf("%s lacks %q", name, origin)
		}
	}
	r := csv.NewReader(strings.NewReader(string(content)))
	r.Comment = '#'
	all, err := r.ReadAll()
	if err != nil {
		t.Fatal(name, err)
	}
	chosen := func(list []string, i int) bool { return len(list) == 0 || slices.Contains(list, strconv.Itoa(i)) }
	var out strings.Builder
	for i, row := range all {
		if k := slices.Index(all[0], "ratio"); k > 1 && i > 0 { // of the two columns before it
			values := strings.Fields(strings.ReplaceAll(row[k-1], " ", "") + " " + strings.ReplaceAll(row[k-2], " ", ""))
			popri, _ := strconv.ParseFloat(values[0], 64)
			peer, _ := strconv.ParseFloat(values[1], 64)
			if row[k] != fmt.Sprintf("%.1f×", popri/peer) && row[k] != fmt.Sprintf("%.0f×", popri/peer) {
				t.Errorf("%s: %s is not %s / %s", name, row[k], row[k-1], row[k-2])
			}
		}
		rule := "|"
		for k, cell := range row {
			if chosen(columns, k+1) && (i == 0 || chosen(rows, i)) {
				fmt.Fprintf(&out, "| %s ", cell)
				rule += "---|"
			}
		}
		if i == 0 {
			out.WriteString("|\n" + rule + "\n")
		} else if chosen(rows, i) {
			out.WriteString("|\n")
		}
	}
	return out.String()
}
