package parquetio

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"popri/testkit/testfile"
)

// TestCases: one table that pyarrow, DuckDB and Polars wrote in many ways (scripts/parquet_cases.py) is the same table, or
// its codec is refused by name. POPRI_PARQUET names a folder with all of them.
func TestCases(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "golden", "parquet")
	if own := os.Getenv("POPRI_PARQUET"); own != "" {
		dir = own
	}
	var want map[string][]any
	testfile.ReadJSON(t, filepath.Join(dir, "expected.json"), &want)
	names := []string{"id", "gap", "text", "day", "at", "flag", "words"}
	var columns []Column
	for _, n := range names {
		columns = append(columns, Column{Name: n, Convert: true, Floats: true})
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no files (%v)", dir, err)
	}
	read, refused := 0, 0
	for _, path := range files {
		rows, err := scanned(path, columns)
		if strings.Contains(path, "lz4") {
			if refused++; err == nil || !strings.Contains(err.Error(), "LZ4") {
				t.Errorf("%s: %v, want LZ4 refused by name", path, err)
			}
			continue
		}
		if err != nil || len(rows) != len(want["id"]) {
			t.Errorf("%s: %d rows, %v", path, len(rows), err)
			continue
		}
		read++
		for i, row := range rows {
			for k, n := range names {
				if !slices.Equal(row[k], cellsOf(want[n][i])) {
					t.Errorf("%s: row %d: %s is %v, want %v", path, i, n, row[k], want[n][i])
				}
			}
		}
	}
	t.Logf("%d files are read, %d are refused", read, refused)
}

// scanned reads rows of cells.
func scanned(path string, columns []Column) (rows [][][]Cell, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = f.Scan(columns, func(_ int64, cells [][]Cell) error {
		row := make([][]Cell, len(cells))
		for i := range cells {
			row[i] = slices.Clone(cells[i])
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// cellsOf are the cells of a value: one, or a list's.
func cellsOf(v any) (cells []Cell) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			cells = append(cells, cellsOf(x)...)
		}
		return cells
	case string:
		return []Cell{{Value: v}}
	}
	return []Cell{{Null: true}}
}
