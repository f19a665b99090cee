package textgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
	"popri/model/chat"
	"popri/model/tokenizer"
)

// Prompt is one prompt, with its tokens and its position in the file.
type Prompt struct {
	Where string // file:line
	Text  string
	IDs   []int32
}

// ReadPrompts reads JSON lines: {"prompt": "text"}, {"ids": [1, 2, 3]}, or a conversation, {"messages": [{"role":
// "user", "content": "…"}]} or the same list as the prompt. A text is preceded by the ids of the tokenizer's template;
// ids are taken as they are; a conversation is written by the chat template of the model's folder, up to where the
// model's turn begins. Blank lines are skipped. name is the file's name in errors. Errors of the content are the
// user's.
func ReadPrompts(r io.Reader, name string, tok *tokenizer.Tokenizer, folder string) ([]Prompt, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var prompts []Prompt
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p := Prompt{Where: fmt.Sprintf("%s:%d", name, number)}
		if err := p.parse(exactjson.TrimBOM(line), tok, folder); err != nil {
			return nil, fault.Userf("%s: %w", p.Where, err)
		}
		prompts = append(prompts, p)
	}
	if len(prompts) == 0 {
		return nil, fault.Userf("%s: no prompts", name)
	}
	return prompts, nil
}

func (p *Prompt) parse(line []byte, tok *tokenizer.Tokenizer, folder string) error {
	const want = `not {"prompt": "…"}, {"messages": […]} or {"ids": […]}: %w`
	var v struct {
		Prompt   json.RawMessage `json:"prompt"`
		Messages []chat.Message  `json:"messages"`
		IDs      []int32         `json:"ids"`
	}
	if _, err := exactjson.Fields(line); err != nil {
		return fmt.Errorf(want, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return fmt.Errorf(want, quote.JSON(err))
	}
	given := 0
	for _, has := range []bool{v.Prompt != nil, v.Messages != nil, v.IDs != nil} {
		if has {
			given++
		}
	}
	if given != 1 {
		return errors.New("it must have one of prompt, messages and ids")
	}
	if string(v.Prompt) == "null" {
		return errors.New("the prompt is null")
	}
	if v.Prompt != nil && json.Unmarshal(v.Prompt, &p.Text) != nil { // a list of messages, as TRL has them
		if err := json.Unmarshal(v.Prompt, &v.Messages); err != nil {
			return fmt.Errorf("the prompt is neither text nor a list of messages: %w", quote.JSON(err))
		}
	}
	prefix, _ := tok.Template()
	switch {
	case v.IDs != nil:
		p.Text, p.IDs = tok.Decode(v.IDs, false), v.IDs
	case v.Messages != nil:
		template, err := chat.Load(folder)
		if err == nil {
			p.Text, err = template.Render(v.Messages, true, nil)
		}
		if err != nil {
			return fmt.Errorf("messages need the model's chat template: %w", err)
		}
		p.IDs = tok.Encode(p.Text) // the template writes what begins a text
	default:
		p.IDs = append(append([]int32{}, prefix...), tok.Encode(p.Text)...)
	}
	if len(p.IDs) == 0 {
		return errors.New("the prompt has no tokens")
	}
	return nil
}
