package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"popri/datasets/records"
	"popri/internal/bom"
	"popri/internal/jsonobject"
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
func ReadPublic(path string) ([]Text, error) {
	var texts []Text
	var err error
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".parquet":
		texts, err = readParquet(path)
	case ".jsonl":
		texts, err = readLines(path, parseJSONLine)
	case ".json":
		texts, err = readJSON(path)
	case ".txt":
		texts, err = readLines(path, func(line string) (Text, error) { return clean(line, "") })
	default:
		return nil, fmt.Errorf("datasets: %s: %w: extension %s, want .parquet, .jsonl, .json or .txt", path,
			parquetio.ErrFormat, quote.Text(ext))
	}
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("datasets: %s: %w: it holds no texts", path, parquetio.ErrFormat)
	}
	return texts, nil
}

func readParquet(path string) ([]Text, error) {
	f, err := parquetio.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Has("client_id") && !f.Has("text") {
		return nil, fmt.Errorf("%s: %w: it has a column client_id and no column text: it is a file of clients, not public text", path,
			parquetio.ErrFormat)
	}
	cells, err := f.Strings("text")
	if err != nil {
		return nil, err
	}
	sources := make([]parquetio.Cell, len(cells))
	if f.Has("source") {
		if sources, err = f.Strings("source"); err != nil {
			return nil, err
		}
	}
	texts := make([]Text, len(cells))
	for i, c := range cells {
		if c.Null {
			return nil, fmt.Errorf("%s: %w: row %d: text is null", path, parquetio.ErrFormat, i)
		}
		if texts[i], err = clean(c.Value, sources[i].Value); err != nil {
			return nil, fmt.Errorf("%s: %w: row %d: %v", path, parquetio.ErrFormat, i, err)
		}
	}
	return texts, nil
}

func readJSON(path string) ([]Text, error) {
	var texts []Text
	err := records.Read(path, records.Options{Dialect: records.Dialect{Format: records.JSON}}, func(r records.Record) error {
		if r.HasClient {
			return fmt.Errorf("%s: %w: it names clients: it is a file of clients, not public text", path, parquetio.ErrFormat)
		}
		if r.Text.Null {
			return fmt.Errorf("%s: %w: %s: text is null", path, parquetio.ErrFormat, r.Place)
		}
		t, err := clean(r.Text.Value, "")
		if err != nil {
			return fmt.Errorf("%s: %w: %s: %v", path, parquetio.ErrFormat, r.Place, err)
		}
		texts = append(texts, t)
		return nil
	})
	return texts, err
}

func readLines(path string, parse func(string) (Text, error)) ([]Text, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var texts []Text
	number := 0
	for line := range strings.Lines(string(bom.Trim(content))) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		t, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: line %d: %v", path, parquetio.ErrFormat, number, err)
		}
		texts = append(texts, t)
	}
	return texts, nil
}

func parseJSONLine(line string) (Text, error) {
	fields, err := jsonobject.Fields([]byte(line))
	if err != nil {
		return Text{}, err
	}
	var values [2]*string
	for i, name := range []string{"text", "source"} {
		if raw, ok := fields[name]; ok {
			if err := json.Unmarshal(raw, &values[i]); err != nil {
				return Text{}, fmt.Errorf("%s is %s, want a text", name, quote.Raw(raw))
			}
		}
	}
	if values[0] == nil {
		return Text{}, errors.New("the object has no text")
	}
	source := ""
	if values[1] != nil {
		source = *values[1]
	}
	return clean(*values[0], source)
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

// FirstKeys returns the keys of the first object of a JSON lines file, sorted, or none if its first line is not an
// object.
func FirstKeys(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var object map[string]json.RawMessage
	if err := json.NewDecoder(file).Decode(&object); err != nil {
		return nil, nil // ReadPublic says what is wrong
	}
	return slices.Sorted(maps.Keys(object)), nil
}
