package textgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"popri/internal/bom"
	"popri/internal/fault"
	"popri/internal/jsonobject"
	"popri/internal/quote"
	"popri/model/tokenizer"
)

// Prompt is one prompt, with its tokens and its place in the file.
type Prompt struct {
	Where string // file:line
	Text  string
	IDs   []int32
}

// ReadPrompts reads JSON lines, {"prompt": "text"} or {"ids": [1, 2, 3]}. A text is preceded by the ids of the
// tokenizer's template; ids are taken as they are. Blank lines are skipped. name is the file's name in errors. Errors
// of the content are the user's.
func ReadPrompts(r io.Reader, name string, tok *tokenizer.Tokenizer) ([]Prompt, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var prompts []Prompt
	number := 0
	for line := range bytes.Lines(bom.Trim(content)) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p := Prompt{Where: fmt.Sprintf("%s:%d", name, number)}
		if err := p.parse(line, tok); err != nil {
			return nil, fault.Userf("%s: %w", p.Where, err)
		}
		prompts = append(prompts, p)
	}
	if len(prompts) == 0 {
		return nil, fault.Userf("%s: no prompts", name)
	}
	return prompts, nil
}

func (p *Prompt) parse(line []byte, tok *tokenizer.Tokenizer) error {
	var v struct {
		Prompt *string `json:"prompt"`
		IDs    []int32 `json:"ids"`
	}
	if _, err := jsonobject.Fields(line); err != nil {
		return fmt.Errorf(`not {"prompt": "…"} or {"ids": […]}: %w`, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return fmt.Errorf(`not {"prompt": "…"} or {"ids": […]}: %w`, quote.JSON(err))
	}
	switch {
	case v.Prompt != nil && v.IDs != nil:
		return errors.New("it has both prompt and ids")
	case v.Prompt == nil && v.IDs == nil:
		return errors.New("it has neither prompt nor ids")
	case v.Prompt != nil:
		prefix, _ := tok.Template()
		p.Text, p.IDs = *v.Prompt, append(append([]int32{}, prefix...), tok.Encode(*v.Prompt)...)
	default:
		p.Text, p.IDs = tok.Decode(v.IDs, false), v.IDs
	}
	if len(p.IDs) == 0 {
		return errors.New("the prompt has no tokens")
	}
	return nil
}
