package textgen

import (
	"bufio"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"

	"popri/internal/atomicfile"
	"popri/internal/parquetio"
)

// Extensions are the extensions that [Write] supports.
var Extensions = []string{".jsonl", ".parquet"}

// CanWrite reports whether [Write] supports the path's extension.
func CanWrite(path string) bool { return slices.Contains(Extensions, filepath.Ext(path)) }

// Write writes samples to a file in one step, as Parquet if its name says so and else as JSON lines.
func Write(path string, samples []Sample) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		if filepath.Ext(path) == ".parquet" {
			return parquetio.Write(w, samples, nil)
		}
		return WriteLines(w, samples)
	})
}

// WriteLines writes samples as JSON lines.
func WriteLines(w io.Writer, samples []Sample) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for _, s := range samples {
		if err := encoder.Encode(s); err != nil {
			return err
		}
	}
	return buffered.Flush()
}
