package records

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
)

// readTable reads comma-separated or tab-separated values.
func readTable(in *input, tabs bool, columns Columns, do func(Record) error) error {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	if tabs {
		r.Comma = '\t'
	}
	header, err := r.Read()
	if err == io.EOF {
		return bad("it is empty: want a first line with the columns' names")
	}
	if err != nil {
		return tableError(err)
	}
	header = slices.Clone(header)
	for i, name := range header {
		if at := slices.Index(header, name); at < i {
			return bad("line 1: columns %d and %d have the same name", at+1, i+1)
		}
	}
	names, err := columns.find(func(name string) bool { return slices.Contains(header, name) })
	if err != nil {
		return err
	}
	at := [roles]int{}
	for role, name := range names {
		at[role] = -1
		if name != "" {
			at[role] = slices.Index(header, name)
		}
	}
	others := make([]int, len(columns.Others))
	for i, name := range columns.Others {
		others[i] = slices.Index(header, name)
	}
	for {
		in.next()
		fields, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return tableError(err)
		}
		number, _ := r.FieldPos(0)
		record := Record{Place: Place{Unit: "line", Number: int64(number)}, HasClient: at[client] >= 0, HasSplit: at[split] >= 0}
		for role, cell := range []*Cell{&record.Client, &record.Split, &record.Date, &record.Label, &record.Text} {
			*cell = missing
			if at[role] >= 0 {
				*cell = Cell{Value: fields[at[role]]}
			}
		}
		for _, at := range others {
			record.Others = append(record.Others, Cell{Value: fields[at]})
		}
		if err := do(record); err != nil {
			return err
		}
	}
}

// tableError names the line. The library's errors quote nothing.
func tableError(err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return badPlace(Place{Unit: "line", Number: int64(e.Line)}, "column %d: %w", e.Column, e.Err)
	}
	return bad("%w", err)
}
