package dpo

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"popri/internal/parquetio"
	"popri/model/chat"
)

// readParquet reads the output of [WritePairs], with its token ids, or preference data in TRL's forms, whose
// conversations are lists of structs with role and content. Errors name file, column and row (from 1).
func (x *texts) readParquet(path string) ([]Pair, error) {
	f, err := parquetio.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Rows() == 0 {
		return nil, fmt.Errorf("%s: it holds no pairs", path)
	}
	if f.Has("prompt_ids") && f.Has("chosen_ids") && f.Has("rejected_ids") {
		for _, name := range preference { // texts are bounded, see parquetio
			if f.Has(name) {
				if _, err := f.Strings(name); err != nil {
					return nil, err
				}
			}
		}
		return ReadPairs(path)
	}
	var columns [3][]content
	for i, name := range preference {
		if i == 0 && !f.Has(name) {
			continue
		}
		if columns[i], err = readColumn(f, path, name); err != nil {
			return nil, err
		}
	}
	var pairs []Pair
	for i := range columns[1] {
		r := row{chosen: columns[1][i], rejected: columns[2][i]}
		if columns[0] != nil {
			r.prompt = &columns[0][i]
		}
		if pairs, err = x.add(pairs, r); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", path, i+1, err)
		}
	}
	return pairs, nil
}

// readColumn reads a column of texts or of conversations.
func readColumn(f *parquetio.File, path, name string) ([]content, error) {
	if f.HasField(name, "role") {
		return readMessages(f, path, name)
	}
	cells, err := f.Strings(name)
	if err != nil {
		return nil, err
	}
	out := make([]content, len(cells))
	for i, c := range cells {
		if err := check(c); err != nil {
			return nil, fmt.Errorf("%s: row %d: %s %w", path, i+1, name, err)
		}
		out[i].text = c.Value
	}
	return out, nil
}

func readMessages(f *parquetio.File, path, name string) ([]content, error) {
	if i := slices.IndexFunc(templateArguments[:], f.Has); i >= 0 {
		return nil, fmt.Errorf("%s: column %s is not supported with conversations in Parquet: write the pairs as JSON lines",
			path, templateArguments[i])
	}
	if field := f.Filled(name, "role", "content"); field != "" {
		return nil, fmt.Errorf("%s: the messages of column %s have the field %s, which is not supported in Parquet: write the "+
			"pairs as JSON lines", path, name, field)
	}
	var fields [2][][]parquetio.Cell
	for i, field := range []string{"role", "content"} {
		var err error
		if fields[i], err = f.FieldLists(name, field); err != nil {
			return nil, err
		}
	}
	out := make([]content, len(fields[0]))
	for i, roles := range fields[0] {
		contents := fields[1][i]
		if len(roles) == 0 || len(roles) != len(contents) {
			return nil, fmt.Errorf("%s: row %d: %s is a list of %d roles and %d contents, want messages", path, i+1,
				name, len(roles), len(contents))
		}
		for j := range roles {
			for _, c := range []parquetio.Cell{roles[j], contents[j]} {
				if err := check(c); err != nil {
					return nil, fmt.Errorf("%s: row %d: %s: message %d %w", path, i+1, name, j+1, err)
				}
			}
			out[i].messages = append(out[i].messages, chat.Turn(roles[j].Value, contents[j].Value))
		}
	}
	return out, nil
}

func check(c parquetio.Cell) error {
	switch {
	case c.Null:
		return errors.New("is null")
	case !utf8.ValidString(c.Value):
		return errors.New("is not UTF-8")
	}
	return nil
}
