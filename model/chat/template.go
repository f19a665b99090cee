// Package chat writes conversations as text, as the chat template of a model's folder says: a template in Jinja, which
// gonja carries out.
//
// The template sees what transformers shows it: messages, add_generation_prompt, the names of the special tokens, and
// raise_exception. It does not see strftime_now, so that the same conversation gives the same text on every day:
// templates that write today's date have a fixed one for this case. It reads no files.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"

	"popri/internal/exactjson"
	"popri/internal/fault"
	"popri/internal/quote"
)

// Message is one turn: role and content, and what else a data set gives the template (name, reasoning_content, …).
type Message map[string]any

// ErrNone says that a folder has no chat template.
var ErrNone = errors.New("no chat template")

// Template is a chat template with the special tokens of its tokenizer. It is not safe for concurrent use.
type Template struct {
	path   string
	parsed *exec.Template
	tokens map[string]any // special ones, by the names in tokenizer_config.json
}

// Files of a model's folder.
const (
	templateFile = "chat_template.jinja" // goes first, as in transformers
	configFile   = "tokenizer_config.json"
)

// Load reads the template of a model's folder. A folder without one gives [ErrNone], a template that cannot be read an
// error of the user's.
func Load(dir string) (*Template, error) {
	source, path, tokens, err := Source(dir)
	if err != nil {
		return nil, err
	}
	if source == "" {
		return nil, fmt.Errorf("chat: %s: %w", dir, ErrNone)
	}
	parsed, err := parse(source)
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the whole template
	}
	if err != nil {
		return nil, fault.Userf("chat: %s: the chat template cannot be read: %w", path, err)
	}
	return &Template{path, parsed, tokens}, nil
}

// Source returns the template of a model's folder as it is written, "" if there is none, the file that it stands in, and
// the special tokens by their names in tokenizer_config.json.
func Source(dir string) (source, path string, tokens map[string]any, err error) {
	path, tokens = filepath.Join(dir, configFile), map[string]any{}
	if source, err = fromConfig(path, tokens); err != nil {
		return "", path, nil, fault.Userf("chat: %s: %w", path, err)
	}
	own := filepath.Join(dir, templateFile)
	switch content, err := os.ReadFile(own); {
	case err == nil:
		path, source = own, string(exactjson.TrimBOM(content))
	case !errors.Is(err, fs.ErrNotExist):
		return "", own, nil, fault.Userf("chat: %w", err)
	}
	return source, path, tokens, nil
}

// fromConfig returns the template in a tokenizer_config.json, "" if there is none, and puts the names of special tokens
// into tokens.
func fromConfig(path string, tokens map[string]any) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(exactjson.TrimBOM(content), &fields); err != nil {
		return "", quote.JSON(err)
	}
	for name, raw := range fields {
		var token struct{ Content string }
		if strings.HasSuffix(name, "_token") &&
			(json.Unmarshal(raw, &token.Content) == nil || json.Unmarshal(raw, &token) == nil) &&
			token.Content != "" {
			tokens[name] = token.Content
		}
	}
	var one string
	var named []struct{ Name, Template string }
	raw, ok := fields["chat_template"]
	if !ok || json.Unmarshal(raw, &one) == nil {
		return one, nil
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("chat_template is %s, want a text or a list of named ones", quote.Raw(raw))
	}
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", errors.New("of the list chat_template, none is named default")
}

// generation matches transformers' tags around what a model writes, which change nothing in the text.
var generation = regexp.MustCompile(`\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}`)

// indent matches the blanks before a tag that begins a line. Jinja's lstrip_blocks removes them; gonja's would remove
// those between two tags of a line as well.
var indent = regexp.MustCompile(`(?m)^[ \t]+(\{[%#][^+])`)

// parse reads a template as transformers does: with trim_blocks and lstrip_blocks.
func parse(source string) (parsed *exec.Template, err error) {
	defer recovered(&err)
	source = indent.ReplaceAllString(source, "$1")
	source = generation.ReplaceAllStringFunc(source, func(tag string) string {
		m := generation.FindStringSubmatch(tag)
		if m[2] == "" {
			return "{%" + m[1] + " if true " + m[3] + "%}"
		}
		return "{%" + m[1] + " endif " + m[3] + "%}"
	})
	c := config.New()
	c.TrimBlocks = true
	const name = "/" + templateFile
	loader, err := loaders.NewMemoryLoader(map[string]string{name: source}) // the template can name no other file
	if err != nil {
		return nil, err
	}
	return exec.NewTemplate(name, c, loader, &exec.Environment{
		Context: exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables),
		Filters: filters, Tests: builtins.Tests, ControlStructures: builtins.ControlStructures,
		Methods: builtins.Methods,
	})
}

// filters are Jinja's, with transformers' tojson: as Python writes JSON, without escapes for HTML.
var filters = exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters).
	Update(exec.NewFilterSet(map[string]exec.FilterFunction{"tojson": toJSON}))

// toJSON writes texts. Lists and objects are refused: what Go makes of a JSON object has lost the order of its names.
func toJSON(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	if !in.IsString() {
		return exec.AsValue(fmt.Errorf("tojson of anything but texts is not supported, and not of %s",
			quote.Text(in.String())))
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range in.String() {
		if escaped, ok := escapes[r]; ok {
			b.WriteString(escaped)
		} else if r < ' ' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return exec.AsValue(b.String() + `"`)
}

var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

// Render writes a conversation. prompt adds what stands before the model's next turn.
func (t *Template) Render(messages []Message, prompt bool) (text string, err error) {
	defer recovered(&err)
	list := make(turns, len(messages))
	for i, m := range messages {
		turn := make(map[string]any, len(m))
		for name, value := range m {
			if turn[name], err = shown(value); err != nil {
				return "", fmt.Errorf("message %d: %q %w", i+1, name, err)
			}
		}
		list[i] = turn
	}
	var refused error
	values := map[string]any{"messages": list, "add_generation_prompt": prompt, "tools": nil, "documents": nil,
		"raise_exception": func(reason string) (string, error) {
			refused = fmt.Errorf("the chat template %s refuses the conversation: %s", t.path, quote.Text(reason))
			return "", refused
		}}
	for name, token := range t.tokens {
		values[name] = token
	}
	text, err = t.parsed.ExecuteToString(exec.NewContext(values))
	switch {
	case refused != nil:
		return "", refused
	case err != nil:
		return "", fmt.Errorf("the chat template %s cannot write the conversation: %w", t.path, err)
	}
	return text, nil
}

// shown is a field of a message as a template sees it: whole numbers are such, as in Python. An object is refused: Go's
// has lost the order of the file, in which transformers writes the arguments of a tool's call.
func shown(value any) (any, error) {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), nil
		}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = shown(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return nil, errors.New("holds an object, as calls of tools do, which popri does not write yet: leave the " +
			"field or the conversation out")
	}
	return value, nil
}

// turns is the list of messages that a template sees.
type turns []any

// GetItem implements exec.ItemGetter: an index counts from the end if it is negative. gonja by itself does not find the
// first element in this way, which is the last one of a single message.
func (t turns) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if i < 0 {
		i += len(t)
	}
	if !ok || i < 0 || i >= len(t) {
		return exec.AsValue(nil), false
	}
	return exec.ToValue(t[i]), true
}

// recovered turns a panic of the library into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the template's program stopped: %v", r)
	}
}
