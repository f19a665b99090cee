package datasets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/datasets/records"
	"popri/internal/fault"
	"popri/internal/parquetio"
	"popri/internal/quote"
)

// ReadPublic reads public texts from a file, by its extension:
//
//	.parquet   columns text and, optionally, source
//	.jsonl     one object a line with text and, optionally, source
//	.json      a list of texts, as LargeFedBench's initial_set.json, or of objects with text
//	.txt       one text a line
//
// White space inside a text becomes single spaces; blank lines of .txt and .jsonl are passed over. A null, blank or
// ill-formed text is an error that names the file and the row or line and wraps parquetio.ErrFormat.
func ReadPublic(path string) ([]Text, error) { return read(path, false) }

// ReadLabelled is [ReadPublic] for texts with a class each: the column or field label, a text or a number. A text
// without one, and a format that has no labels, are errors as there.
func ReadLabelled(path string) ([]Text, error) { return read(path, true) }

func read(path string, labelled bool) ([]Text, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %w", path, parquetio.ErrFormat, fmt.Errorf(format, args...))
	}
	var texts []Text
	var err error
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case !slices.Contains([]string{".parquet", ".jsonl", ".json", ".txt"}, ext):
		if _, err = os.Stat(path); err != nil {
			break
		}
		err = bad("extension %s, want .parquet, .jsonl, .json or .txt", quote.Text(ext))
	case ext != ".txt":
		texts, err = readRecords(path, ext[1:], labelled, bad)
	case labelled:
		err = bad("lines of text have no labels; .parquet, .jsonl and .json can")
	default:
		texts, err = readLines(path, bad)
	}
	if err == nil && len(texts) == 0 {
		err = bad("it holds no texts")
	}
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	return texts, nil
}

func readRecords(path, format string, labelled bool, bad func(string, ...any) error) (texts []Text, err error) {
	o := records.Options{Dialect: records.Dialect{Format: format},
		Columns: records.Columns{Source: "source", Unread: []string{"split", "date"}}}
	if !labelled {
		o.Columns.Unread = append(o.Columns.Unread, "label")
	}
	err = records.Read(path, o, func(r records.Record) error {
		if r.HasClient && (format == records.JSON || r.Position.List) {
			return bad("it names clients: it is a file of clients, not public text")
		}
		if r.Text.Null {
			return bad("%s: text is null", r.Position)
		}
		t, err := clean(r.Text.Value, r.Source.Value)
		if err != nil {
			return bad("%s: %w", r.Position, err)
		}
		t.Label = r.Label.Value
		switch {
		case !labelled:
		case r.Label.Null:
			return bad("%s has no label", r.Position)
		case strings.TrimSpace(t.Label) == "" || !utf8.ValidString(t.Label):
			return bad("%s: the label %s is blank or not UTF-8", r.Position, quote.Text(t.Label))
		}
		texts = append(texts, t)
		return nil
	})
	return texts, err
}

func readLines(path string, bad func(string, ...any) error) (texts []Text, err error) {
	content, err := fault.ReadFile(path)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		if number++; strings.TrimSpace(line) == "" {
			continue
		}
		t, err := clean(strings.TrimPrefix(line, "\ufeff"), "") // files with marks are joined
		if err != nil {
			return nil, bad("line %d: %w", number, err)
		}
		texts = append(texts, t)
	}
	return texts, nil
}

func clean(text, source string) (Text, error) {
	if !utf8.ValidString(text) || !utf8.ValidString(source) {
		return Text{}, errors.New("text or source is not UTF-8")
	}
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return Text{}, fmt.Errorf("text is blank")
	}
	return Text{Text: text, Source: source}, nil
}
