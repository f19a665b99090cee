package dpo

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"popri/internal/parquetio"
	"popri/model/tokenizer"
)

// ReadParquet reads pairs from Parquet: the output of [WritePairs], with its token ids, or preference data in TRL's
// form. The latter has the texts "prompt", "chosen" and "rejected", which become tokens and are checked as in
// [ReadJSONL]. Errors name file, column and row (from 1).
func ReadParquet(path string, tok *tokenizer.Tokenizer, context int) ([]Pair, error) {
	pairs, err := readParquet(path, tok, context)
	if err != nil {
		return nil, fmt.Errorf("dpo: %w", err)
	}
	return pairs, nil
}

func readParquet(path string, tok *tokenizer.Tokenizer, context int) ([]Pair, error) {
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
	if !f.Has("prompt") && f.Has("chosen") && f.Has("rejected") {
		return nil, fmt.Errorf("%s: column prompt is missing (%s)", path, implicitPrompt)
	}
	enc, err := newTexts(tok, context)
	if err != nil {
		return nil, err
	}
	var columns [3][]parquetio.Cell
	for i, name := range preference {
		if columns[i], err = f.Strings(name); errors.Is(err, parquetio.ErrFormat) && f.Has(name) {
			return nil, fmt.Errorf("%w (%s)", err, conversational)
		} else if err != nil {
			return nil, err
		}
	}
	pairs := make([]Pair, 0, len(columns[0]))
	for row := range columns[0] {
		var t [3]string
		for i, name := range preference {
			if columns[i][row].Null {
				return nil, fmt.Errorf("%s: row %d: %s is null", path, row+1, name)
			}
			if t[i] = columns[i][row].Value; !utf8.ValidString(t[i]) {
				return nil, fmt.Errorf("%s: row %d: %s is not UTF-8", path, row+1, name)
			}
		}
		p, err := enc.pair(t)
		if err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", path, row+1, err)
		}
		p.PromptIndex = row
		pairs = append(pairs, p)
	}
	return pairs, nil
}
