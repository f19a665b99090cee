package dpo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/fault"
)

// Read reads pairs in the forms of TRL's preference data sets: Parquet if the file is named so, otherwise JSON lines,
// with "prompt", "chosen" and "rejected"; other fields are ignored. They are texts or lists of messages. Without a
// prompt, or with a prompt that is a text with lists of messages, the prompt is what both completions begin with. A
// prompt may be empty, and so may one of the completions, which then is the end of text alone. Parquet may also be the
// output of [WritePairs].
//
// Errors name the file and the line or row: completions that begin with the prompt of their own, that are equal and so
// express no preference, text that is not UTF-8, a duplicate field, and any row of another form. Cut says what did not
// fit.
func Read(path string, o ReadOptions) ([]Pair, Cut, error) {
	x, err := newTexts(o)
	if err != nil {
		return nil, Cut{}, fmt.Errorf("dpo: %w", err)
	}
	var pairs []Pair
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		pairs, err = x.readParquet(path)
	} else {
		pairs, err = x.readJSONL(path)
	}
	if err == nil && len(pairs) == 0 {
		err = fmt.Errorf("%s: of %d pairs, none is left: nothing of them that differs is within dpo.max_length, %d tokens", path,
			x.rows, x.MaxLength)
	}
	if err != nil {
		return nil, Cut{}, fmt.Errorf("dpo: %w", err)
	}
	return pairs, x.Cut, nil
}

func (x *texts) readJSONL(path string) ([]Pair, error) {
	f, err := fault.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pairs, err := x.parseJSONL(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pairs, nil
}

func (x *texts) parseJSONL(r io.Reader) ([]Pair, error) {
	reader := bufio.NewReader(r)
	var pairs []Pair
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if line = bytes.TrimSpace(exactjson.TrimBOM(line)); len(line) > 0 { // files with marks are joined
			r, bad := parseRow(line)
			if bad == nil {
				pairs, bad = x.add(pairs, r)
			}
			if bad != nil {
				return nil, fmt.Errorf("line %d: %w", number, bad)
			}
		}
		if err != nil {
			break
		}
	}
	if x.rows == 0 {
		return nil, errors.New("it holds no pairs")
	}
	return pairs, nil
}
