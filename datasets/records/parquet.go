package records

import (
	"fmt"
	"strings"

	"popri/internal/parquetio"
)

func readParquet(path string, o Options, do func(Record) error) error {
	f, err := parquetio.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := o.Columns.find(f.Has, f.Names)
	if err != nil {
		fault := err.(*Error)
		fault.path = path
		return fault
	}
	var columns []parquetio.Column
	at := [roles]int{-1, -1, -1, -1, -1, -1}
	for role, name := range names {
		if name == "" {
			continue
		}
		if role != text && f.IsList(name) {
			return &Error{path: path, err: fmt.Errorf("column %s is a list, want one value a row", name)}
		}
		at[role] = len(columns)
		// Dates and labels of other programs are often dates and numbers. Elsewhere a number is a mistake, unless the
		// user named the column.
		convert := role == date || role == label || role == client && o.Columns.Client != ""
		columns = append(columns, parquetio.Column{Name: name, Convert: convert, Floats: role == label || role == client})
	}
	numbers := names[client] != "" && f.IsFloat(names[client]) // as pandas has whole ones with gaps
	list, total := f.IsList(names[text]), f.Rows()
	return f.Scan(columns, func(row int64, cells [][]Cell) error {
		if row%1024 == 0 || row == total-1 {
			o.Progress(row+1, total)
		}
		r := Record{Position: Position{Unit: "row", Number: row, List: list}, HasClient: at[client] >= 0,
			HasSplit: at[split] >= 0}
		for role, cell := range []*Cell{&r.Client, &r.Split, &r.Date, &r.Label, &r.Source} {
			*cell = missing
			if at[role] >= 0 {
				*cell = cells[at[role]][0]
			}
		}
		if numbers && strings.ContainsAny(r.Client.Value, ".eEI") {
			return &Error{path: path, position: r.Position.String(),
				err: fmt.Errorf("client is %s, want a whole number of at most 15 digits or a text", r.Client.Value)}
		}
		texts := cells[at[text]]
		if len(texts) == 0 {
			texts = []Cell{missing} // an empty list: the client has no text
		}
		for i, t := range texts {
			r.Position.Text, r.Text = i, t
			if err := do(r); err != nil {
				return err
			}
		}
		return nil
	})
}
