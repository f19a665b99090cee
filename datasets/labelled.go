package datasets

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/datasets/records"
	"popri/internal/parquetio"
	"popri/internal/quote"
)

// ReadLabelled is [ReadPublic] for texts with a class each: the column or field label, a text or a number. A text without
// one, and a format that has no labels, are errors as there.
func ReadLabelled(path string) ([]Text, error) {
	texts, err := ReadPublic(path)
	if err != nil {
		return nil, err
	}
	format := strings.ToLower(filepath.Ext(path))[1:]
	if format == "txt" {
		return nil, fmt.Errorf("datasets: %s: %w: lines of text have no labels; .parquet, .jsonl and .json can", path,
			parquetio.ErrFormat)
	}
	next := 0
	err = records.Read(path, records.Options{Dialect: records.Dialect{Format: format}}, func(r records.Record) error {
		label := r.Label.Value
		switch {
		case r.Label.Null:
			return fmt.Errorf("%s: %w: %s has no label", path, parquetio.ErrFormat, r.Place)
		case strings.TrimSpace(label) == "" || !utf8.ValidString(label):
			return fmt.Errorf("%s: %w: %s: the label %s is blank or not UTF-8", path, parquetio.ErrFormat, r.Place, quote.Text(label))
		case next == len(texts):
			return fmt.Errorf("%s: %w: %s: more labels than texts", path, parquetio.ErrFormat, r.Place)
		}
		texts[next].Label = label
		next++
		return nil
	})
	if err == nil && next != len(texts) {
		err = fmt.Errorf("%s: %w: %d texts and %d labels", path, parquetio.ErrFormat, len(texts), next)
	}
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	return texts, nil
}

// Classes returns the different labels, sorted.
func Classes(labels ...string) []string {
	set := map[string]bool{}
	for _, l := range labels {
		set[l] = true
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}
