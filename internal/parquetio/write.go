package parquetio

import (
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Metadata holds keys and values of a file's own metadata.
type Metadata map[string]string

// groupRows is the number of rows of a row group.
const groupRows = 10_000

// Writer writes rows one by one: zstd, page checksums, row groups of 10 000 rows.
type Writer[Row any] struct {
	out *parquet.GenericWriter[Row]
	n   int
}

// NewWriter returns a writer to w. [Writer.Close] completes the file.
func NewWriter[Row any](w io.Writer, metadata Metadata) *Writer[Row] {
	options := []parquet.WriterOption{parquet.Compression(&zstd.Codec{Level: zstd.SpeedBetterCompression}),
		parquet.CreatedBy("popri", "1", "")}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		options = append(options, parquet.KeyValueMetadata(k, metadata[k]))
	}
	return &Writer[Row]{out: parquet.NewGenericWriter[Row](w, options...)}
}

// Write writes rows.
func (w *Writer[Row]) Write(rows ...Row) error {
	for len(rows) > 0 {
		n := min(len(rows), groupRows-w.n)
		if _, err := w.out.Write(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
		if w.n += n; w.n == groupRows {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush ends the row group early, which bounds the memory that large rows need.
func (w *Writer[Row]) Flush() error {
	w.n = 0
	return w.out.Flush()
}

// Close writes what is left and the footer.
func (w *Writer[Row]) Close() error { return w.out.Close() }

// Write writes rows to w as a [Writer] does.
func Write[Row any](w io.Writer, rows []Row, metadata Metadata) error {
	out := NewWriter[Row](w, metadata)
	if err := out.Write(rows...); err != nil {
		return err
	}
	return out.Close()
}
