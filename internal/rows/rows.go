// Package rows writes and reads a run's own Parquet files, a struct for each row.
package rows

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parquet-go/parquet-go"

	"popri/internal/atomicfile"
)

// Write replaces the file at path by rows, in one step.
func Write[T any](path string, rows []T) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		pw := parquet.NewGenericWriter[T](w)
		if _, err := pw.Write(rows); err != nil {
			return err
		}
		return pw.Close()
	})
}

// Read reads a file of rows. A missing file gives fs.ErrNotExist; the error of a damaged file names it.
func Read[T any](path string) (rows []T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: damaged Parquet: %v", path, r)
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	rows, err = parquet.ReadFile[T](path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// WriteLines writes values as JSON lines, in one step.
func WriteLines[T any](path string, values []T) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		for _, v := range values {
			if err := encoder.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
}

// Columns returns the names of the columns of a file of rows, so that files of one name with different rows are told
// apart.
func Columns(path string) (names []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: damaged Parquet: %v", path, r)
		}
	}()
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	stored, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, column := range stored.Schema().Columns() {
		names = append(names, strings.Join(column, "."))
	}
	return names, nil
}
