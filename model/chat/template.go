// Package chat writes conversations as text, as the chat template of a model's folder says: a template in Jinja
// ([jinja]).
//
// The template sees what transformers shows it: messages, add_generation_prompt, the names of the special tokens,
// raise_exception and strftime_now. The last one gives the same day in every run ([Today]), so that the same conversation
// gives the same text.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/itchyny/timefmt-go"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/numeric"
	"popri/internal/quote"
	"popri/model/chat/jinja"
	"popri/model/tokenizer"
)

// Message is one turn: role and content, and what else a data set gives the template (name, tool_calls, …), in the order
// of the file.
type Message struct{ fields *jinja.Dict }

// Turn returns a message of role and content.
func Turn(role, content string) Message {
	m := Message{jinja.NewDict()}
	m.fields.Set("role", role)
	m.fields.Set("content", content)
	return m
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Message) UnmarshalJSON(raw []byte) error {
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return err
	}
	fields, ok := v.(*jinja.Dict)
	if !ok {
		return fmt.Errorf("a message is %s, want an object with role and content", quote.Raw(raw))
	}
	m.fields = fields
	return nil
}

// ErrNone says that a folder has no chat template.
var ErrNone = errors.New("no chat template")

// Template is a chat template with the special tokens of its tokenizer.
type Template struct {
	path   string
	parsed *jinja.Template
	tools  func() (*jinja.Template, error) // of conversations with tools, nil where there is none of its own
	tokens map[string]string               // special ones, by their names
}

// Files of a model's folder.
const (
	templateFile = "chat_template.jinja" // goes first, as in transformers
	toolsFile    = "additional_chat_templates/tool_use.jinja"
	configFile   = "tokenizer_config.json"
)

// The names of templates in a list.
const (
	byDefault = "default"
	forTools  = "tool_use" // writes conversations with tools
)

// Load reads the template of a model's folder. A folder without one gives [ErrNone], a template that cannot be read an
// error of the user's.
func Load(dir string) (*Template, error) {
	sources, path, tokens, err := templates(dir)
	if err != nil {
		return nil, err
	}
	if sources[byDefault] == "" {
		return nil, fmt.Errorf("chat: %s: %w", dir, ErrNone)
	}
	parse := func(name string) (*jinja.Template, error) {
		parsed, err := jinja.Parse(sources[name])
		if err != nil {
			where := path
			if name == forTools && filepath.Base(path) == templateFile {
				where = filepath.Join(dir, toolsFile)
			}
			err = fault.Userf("chat: %s: the chat template %s cannot be read: %w", where, name, err)
		}
		return parsed, err
	}
	t := &Template{path: path, tokens: tokens}
	if sources[forTools] != "" {
		t.tools = sync.OnceValues(func() (*jinja.Template, error) { return parse(forTools) })
	}
	t.parsed, err = parse(byDefault)
	return t, err
}

// Source returns the default template of a model's folder as it is written, "" if there is none, the file that it stands
// in, and the special tokens by their names ([tokenizer.SpecialTokens]).
func Source(dir string) (source, path string, tokens map[string]string, err error) {
	sources, path, tokens, err := templates(dir)
	return sources[byDefault], path, tokens, err
}

// templates are the sources of a folder's templates by their names: of files, or where there are none, of
// tokenizer_config.json.
func templates(dir string) (sources map[string]string, path string, tokens map[string]string, err error) {
	path = filepath.Join(dir, configFile)
	if tokens, _, err = tokenizer.SpecialTokens(dir); err != nil {
		return nil, path, nil, fault.Userf("chat: %w", err)
	}
	if sources, err = fromConfig(path); err != nil {
		return nil, path, nil, fault.Userf("chat: %s: %w", path, err)
	}
	for _, name := range []string{templateFile, toolsFile} {
		file := filepath.Join(dir, name)
		switch content, err := fault.ReadFile(file); {
		case errors.Is(err, fs.ErrNotExist):
			return sources, path, tokens, nil
		case err != nil:
			return nil, file, nil, fault.Userf("chat: %w", err)
		case name == templateFile:
			path, sources = file, map[string]string{byDefault: string(exactjson.TrimBOM(content))}
		default:
			sources[forTools] = string(exactjson.TrimBOM(content))
		}
	}
	return sources, path, tokens, nil
}

// fromConfig returns the templates in a tokenizer_config.json by their names; none if there are none.
func fromConfig(path string) (map[string]string, error) {
	content, err := fault.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var fields struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(exactjson.TrimBOM(content), &fields); err != nil {
		return nil, quote.JSON(err)
	}
	var one string
	var named []struct{ Name, Template string }
	if raw := fields.Template; raw == nil || json.Unmarshal(raw, &one) == nil {
		return map[string]string{byDefault: one}, nil
	} else if err := json.Unmarshal(raw, &named); err != nil {
		return nil, fmt.Errorf("chat_template is %s, want a text or a list of named ones", quote.Raw(raw))
	}
	out := map[string]string{}
	for _, t := range named {
		if t.Name == byDefault || t.Name == forTools {
			out[t.Name] = t.Template
		}
	}
	if _, ok := out[byDefault]; !ok {
		return nil, errors.New("of the list chat_template, none is named default")
	}
	return out, nil
}

// Today is the date that strftime_now gives. It is the one that the template of LLaMA 3 writes where it is not told the
// day.
var Today = time.Date(2024, time.July, 26, 0, 0, 0, 0, time.UTC)

// Arguments are what a template sees besides the messages: tools, and arguments by their own names.
type Arguments map[string]jinja.Value

// ParseArguments reads the fields tools, a list or a text with one, and chat_template_kwargs, an object, of a row of
// TRL's data; nil for a field that is not there.
func ParseArguments(tools, arguments json.RawMessage) (Arguments, error) {
	a := Arguments{}
	if arguments != nil {
		v, err := jinja.FromJSON(arguments)
		named, ok := v.(*jinja.Dict)
		if err != nil || !ok && v != nil {
			return nil, fmt.Errorf("chat_template_kwargs is %s, want an object", quote.Raw(arguments))
		}
		if ok {
			a = named.Named()
		}
	}
	var written string
	if json.Unmarshal(tools, &written) == nil {
		tools = json.RawMessage(written)
	}
	if len(tools) > 0 {
		v, err := jinja.FromJSON(tools)
		if _, ok := v.(*jinja.List); err != nil || !ok && v != nil {
			return nil, fmt.Errorf("tools is %s, want a list", quote.Raw(tools))
		}
		a["tools"] = v
	}
	return a, nil
}

// Render writes a conversation. prompt adds what stands before the model's next turn.
func (t *Template) Render(messages []Message, prompt bool, more Arguments) (string, error) {
	list := jinja.NewList(numeric.Map(messages, func(m Message) jinja.Value { return m.fields })...)
	var refused error
	values := map[string]jinja.Value{"messages": list, "add_generation_prompt": prompt, "tools": nil, "documents": nil,
		"strftime_now": function("strftime_now", func(format string) (jinja.Value, error) {
			return timefmt.Format(Today, format), nil
		}),
		"raise_exception": function("raise_exception", func(reason string) (jinja.Value, error) {
			refused = fmt.Errorf("the chat template %s refuses the conversation: %s", t.path, quote.Text(reason))
			return nil, refused
		})}
	for name, token := range t.tokens {
		values[name] = token
	}
	maps.Copy(values, more)
	parsed, err := t.parsed, error(nil)
	if t.tools != nil && values["tools"] != nil {
		if parsed, err = t.tools(); err != nil {
			return "", err
		}
	}
	text, err := parsed.Render(values)
	switch {
	case refused != nil:
		return "", refused
	case err != nil:
		return "", fmt.Errorf("the chat template %s cannot write the conversation: %w", t.path, err)
	}
	return text, nil
}

// function is one of a text.
func function(name string, of func(text string) (jinja.Value, error)) *jinja.Function {
	return &jinja.Function{Name: name, Call: func(args []jinja.Value) (jinja.Value, error) {
		if len(args) == 1 {
			if text, ok := args[0].(string); ok {
				return of(text)
			}
		}
		return nil, fmt.Errorf("%s takes one text", name)
	}}
}
