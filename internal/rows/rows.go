// Package rows writes and reads a run's own Parquet files, a struct for each row.
package rows

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	err = within(path, func(stored *parquet.File) error {
		schema := parquet.SchemaOf(new(T))
		if columns := foreign(stored.Schema(), schema); columns != nil {
			rows, err = readForeign[T](stored, schema, columns)
			return err
		}
		reader := parquet.NewGenericReader[T](stored)
		defer reader.Close()
		rows = make([]T, stored.NumRows())
		n, err := reader.Read(rows)
		rows = rows[:n]
		if err == io.EOF {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// within opens a Parquet file, whose metadata it reads, for do. The library panics on some damaged files.
func within(path string, do func(*parquet.File) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: damaged Parquet: %v", path, r)
		}
	}()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	var stored *parquet.File
	if err == nil {
		stored, err = parquet.OpenFile(file, info.Size())
	}
	if err == nil {
		err = do(stored)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Optional is [Read] for a file that may be missing: it then has no rows.
func Optional[T any](path string) ([]T, error) {
	rows, err := Read[T](path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, err
}

// ReadLines reads what WriteLines wrote. A missing file gives fs.ErrNotExist.
func ReadLines[T any](path string) (values []T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<30)
	for scanner.Scan() {
		var v T
		if err := json.Unmarshal(scanner.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, len(values)+1, err)
		}
		values = append(values, v)
	}
	return values, scanner.Err()
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

// Columns returns the names of the columns of a file of rows, to distinguish files of one name with different rows.
func Columns(path string) (names []string, err error) {
	err = within(path, func(stored *parquet.File) error {
		for _, column := range stored.Schema().Columns() {
			names = append(names, strings.Join(column, "."))
		}
		return nil
	})
	return names, err
}
