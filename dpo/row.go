package dpo

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"popri/internal/exactjson"
	"popri/internal/quote"
	"popri/model/chat"
)

// row is a row of TRL's preference data. Its fields are texts, or all of them lists of messages. A row without a prompt
// has an implicit one: what both completions begin with.
type row struct {
	prompt           *content
	chosen, rejected content
	arguments        chat.Arguments // of the chat template, besides the messages
}

// content is a text, or the messages of a conversation.
type content struct {
	text     string
	messages []chat.Message // nil for a text
}

// kind names what the content is, for errors.
func (c content) kind() string {
	if c.messages != nil {
		return "a list of messages"
	}
	return "a text"
}

// explicit returns the row with a prompt of its own, as TRL's maybe_extract_prompt does: a prompt that is missing, or a
// text with lists of messages (as in UltraFeedback), is taken from the beginning that chosen and rejected share.
func (r row) explicit() (row, error) {
	conversation := r.chosen.messages != nil
	switch {
	case conversation != (r.rejected.messages != nil):
		return r, fmt.Errorf("\"chosen\" is %s and \"rejected\" is %s, want two of a kind", r.chosen.kind(), r.rejected.kind())
	case reflect.DeepEqual(r.chosen, r.rejected):
		return r, errors.New("chosen and rejected are the same: they prefer nothing, leave the pair out")
	case r.prompt == nil, conversation && r.prompt.messages == nil:
		return r.extract(), nil
	case !conversation && r.prompt.messages != nil:
		return r, errors.New("\"prompt\" is a list of messages and the completions are texts, want all of a kind")
	}
	inside := strings.HasPrefix(r.chosen.text, r.prompt.text) && strings.HasPrefix(r.rejected.text, r.prompt.text) &&
		strings.TrimSpace(r.prompt.text) != ""
	if n := len(r.prompt.messages); conversation && len(r.chosen.messages) >= n && len(r.rejected.messages) >= n {
		inside = reflect.DeepEqual(r.chosen.messages[:n], r.prompt.messages) &&
			reflect.DeepEqual(r.rejected.messages[:n], r.prompt.messages)
	}
	if inside {
		return r, errors.New("chosen and rejected begin with the prompt, which then would be read twice: remove " +
			"\"prompt\" from the file, for what both begin with is the prompt then, or remove it from the completions")
	}
	return r, nil
}

// extract divides completions from what both begin with, as TRL's extract_prompt does: before the first message, or the
// first character, that differs, or is the last of the shorter one. A space before it belongs to the completions.
func (r row) extract() row {
	out := row{prompt: &content{}}
	if r.chosen.messages != nil {
		chosen, rejected := r.chosen.messages, r.rejected.messages
		n := 0
		for n < min(len(chosen), len(rejected))-1 && reflect.DeepEqual(chosen[n], rejected[n]) {
			n++
		}
		out.prompt.messages, out.chosen.messages, out.rejected.messages = chosen[:n], chosen[n:], rejected[n:]
		return out
	}
	chosen, rejected := []rune(r.chosen.text), []rune(r.rejected.text)
	n := same(chosen, rejected)
	if n > 0 && n == min(len(chosen), len(rejected)) {
		n--
	} else if n > 0 && chosen[n-1] == ' ' {
		n--
	}
	out.prompt.text, out.chosen.text, out.rejected.text = string(chosen[:n]), string(chosen[n:]), string(rejected[n:])
	return out
}

// preference has the names of TRL's fields.
var preference = [3]string{"prompt", "chosen", "rejected"}

// parseRow reads a line of JSON.
func parseRow(line []byte) (r row, err error) {
	fields, err := exactjson.Fields(line)
	if err != nil {
		return r, fmt.Errorf("want an object with prompt, chosen and rejected: %w", err)
	}
	for i, target := range []*content{new(content), &r.chosen, &r.rejected} {
		raw, ok := fields[preference[i]]
		switch {
		case !ok && i == 0:
			continue
		case !ok:
			return r, fmt.Errorf("%q is missing", preference[i])
		}
		if *target, err = parseContent(raw); err != nil {
			return r, fmt.Errorf("%q %w", preference[i], err)
		}
		if i == 0 {
			r.prompt = target
		}
	}
	if r.chosen.messages != nil {
		r.arguments, err = chat.ParseArguments(fields[templateArguments[0]], fields[templateArguments[1]])
	}
	return r, err
}

// templateArguments are the fields by which a row of TRL's data passes more than messages to the chat template.
var templateArguments = [2]string{"tools", "chat_template_kwargs"}

func parseContent(raw json.RawMessage) (c content, err error) {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		return c, json.Unmarshal(raw, &c.text)
	case len(raw) == 0 || raw[0] != '[':
		return c, fmt.Errorf("is %s, want a text or a list of messages", quote.Raw(raw))
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return c, err
	}
	if len(list) == 0 {
		return c, errors.New("is a list without messages")
	}
	for i, raw := range list {
		m, err := parseMessage(raw)
		if err != nil {
			return c, fmt.Errorf("is a list whose message %d is %s: %w", i+1, quote.Raw(raw), err)
		}
		c.messages = append(c.messages, m)
	}
	return c, nil
}

func parseMessage(raw json.RawMessage) (m chat.Message, err error) {
	fields, err := exactjson.Fields(raw)
	if err != nil {
		return m, fmt.Errorf("want an object with role and content: %w", err)
	}
	role, content, calls := fields["role"], fields["content"], fields["tool_calls"]
	none := content == nil || string(content) == "null"
	switch {
	case role == nil:
		return m, errors.New(`"role" is missing`)
	case role[0] != '"':
		return m, fmt.Errorf(`"role" is %s, want a text`, quote.Raw(role))
	case none && calls != nil && string(calls) != "null": // calls of tools have no text
	case content == nil:
		return m, errors.New(`"content" is missing`)
	case content[0] != '"' && content[0] != '[':
		return m, fmt.Errorf(`"content" is %s, want a text or a list of parts`, quote.Raw(content))
	}
	return m, m.UnmarshalJSON(raw)
}
