package rows

import (
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// foreign finds the columns of a file that has lists as other programs write them (pyarrow, DuckDB, Spark): within a
// group "list". parquet-go reads such a list into no []T. It gives the
// file's column for each of the schema, or nil for a file with the columns of the schema.
func foreign(file, want *parquet.Schema) map[int]int {
	found, nested := map[int]int{}, false
	for _, path := range want.Columns() {
		to, _ := want.Lookup(path...)
		for _, from := range file.Columns() {
			if from[0] == path[0] && len(path) == 1 {
				c, _ := file.Lookup(from...)
				found[to.ColumnIndex] = c.ColumnIndex
				nested = nested || len(from) > 1
			}
		}
	}
	if !nested {
		return nil
	}
	return found
}

// readForeign reads the rows of such a file.
func readForeign[T any](file *parquet.File, want *parquet.Schema, columns map[int]int) (out []T, err error) {
	reader := parquet.NewReader(file)
	defer reader.Close()
	buffer := make([]parquet.Row, 64)
	for {
		n, err := reader.ReadRows(buffer)
		for _, row := range buffer[:n] {
			var value T
			converted, err := convert(row, want, columns)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(out), err)
			}
			if err := want.Reconstruct(&value, converted); err != nil {
				return nil, fmt.Errorf("row %d: %w", len(out), err)
			}
			out = append(out, value)
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// convert gives a row's values the levels of the schema. A list that is null is empty; a null within one is refused.
func convert(row parquet.Row, want *parquet.Schema, columns map[int]int) (out parquet.Row, err error) {
	for _, path := range want.Columns() {
		to, _ := want.Lookup(path...)
		from, ok := columns[to.ColumnIndex]
		values := slices.DeleteFunc(slices.Clone(row), func(v parquet.Value) bool { return !ok || v.Column() != from })
		if to.MaxRepetitionLevel > 0 && len(values) == 1 && values[0].IsNull() {
			values = nil
		}
		for i, v := range values {
			null := v.IsNull()
			if null && to.MaxDefinitionLevel == to.MaxRepetitionLevel {
				return nil, fmt.Errorf("column %s: a null", path[0])
			}
			defined := to.MaxDefinitionLevel
			if null {
				defined--
			}
			out = append(out, v.Level(min(i, to.MaxRepetitionLevel), defined, to.ColumnIndex))
		}
		if len(values) == 0 {
			out = append(out, parquet.NullValue().Level(0, 0, to.ColumnIndex))
		}
	}
	return out, nil
}
