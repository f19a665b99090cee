package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"

	"popri/internal/quote"
)

// parsePostProcessor reads the template. The ByteLevel step changes offsets, which nobody asks for.
func (t *Tokenizer) parsePostProcessor(raw json.RawMessage) error {
	if isNull(raw) {
		return nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return err
	}
	switch kind {
	case "ByteLevel":
		return strict(raw, &byteLevelSettings{})
	case "Sequence":
		var sequence struct {
			Type       string            `json:"type"`
			Processors []json.RawMessage `json:"processors"`
		}
		if err := strict(raw, &sequence); err != nil {
			return err
		}
		for _, processor := range sequence.Processors {
			if kind, err := typeOf(processor); err != nil {
				return err
			} else if kind == "Sequence" {
				return errors.New("a Sequence in a Sequence is not supported")
			}
			if err := t.parsePostProcessor(processor); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		return t.parseTemplate(raw)
	case "RobertaProcessing", "BertProcessing":
		return t.parseAround(raw, kind)
	}
	return quote.Errorf("%q is not supported (supported: ByteLevel, TemplateProcessing, RobertaProcessing, "+
		"BertProcessing, Sequence)", kind)
}

// parseAround reads the older forms of a template: one token before a text and one after it.
func (t *Tokenizer) parseAround(raw json.RawMessage, kind string) error {
	var around struct {
		Type   string     `json:"type"`
		Sep    namedToken `json:"sep"`
		Cls    namedToken `json:"cls"`
		Trim   bool       `json:"trim_offsets"`
		Prefix bool       `json:"add_prefix_space"` // says how offsets are trimmed
	}
	if err := strict(raw, &around); err != nil {
		return err
	}
	if t.prefix != nil || t.suff != nil {
		return errors.New("more than one template is not supported")
	}
	if around.Cls.name == "" || around.Sep.name == "" {
		return quote.Errorf("%s without cls and sep is not supported", quote.Raw(kind))
	}
	for _, token := range []namedToken{around.Cls, around.Sep} {
		if !t.vocab.has(token.id) {
			return quote.Errorf("%s: %q has id %d, which no token has", quote.Raw(kind), token.name, token.id)
		}
	}
	t.prefix, t.suff = []int32{around.Cls.id}, []int32{around.Sep.id}
	return nil
}

// namedToken is ["</s>", 2].
type namedToken struct {
	name string
	id   int32
}

func (n *namedToken) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("%s is not a token and its id", quote.Raw(string(b)))
	}
	return errors.Join(json.Unmarshal(pair[0], &n.name), json.Unmarshal(pair[1], &n.id))
}

func (t *Tokenizer) parseTemplate(raw json.RawMessage) error {
	type item struct {
		Sequence     *struct{ ID string } `json:"Sequence"`
		SpecialToken *struct{ ID string } `json:"SpecialToken"`
	}
	var template struct {
		Type          string          `json:"type"`
		Single        []item          `json:"single"`
		Pair          json.RawMessage `json:"pair"`
		SpecialTokens map[string]struct {
			ID     string
			IDs    []int32
			Tokens []string
		} `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &template); err != nil {
		return err
	}
	if t.prefix != nil || t.suff != nil {
		return errors.New("more than one TemplateProcessing is not supported")
	}
	texts := 0
	for _, it := range template.Single {
		switch {
		case it.Sequence != nil:
			texts++
		case it.SpecialToken != nil:
			special, ok := template.SpecialTokens[it.SpecialToken.ID]
			if !ok {
				return quote.Errorf("TemplateProcessing: %q is not in special_tokens", it.SpecialToken.ID)
			}
			for _, id := range special.IDs {
				if !t.vocab.has(id) {
					return quote.Errorf("TemplateProcessing: %q has id %d, which no token has", it.SpecialToken.ID, id)
				}
			}
			if texts == 0 {
				t.prefix = append(t.prefix, special.IDs...)
			} else {
				t.suff = append(t.suff, special.IDs...)
			}
		default:
			return errors.New("TemplateProcessing: single holds an item that is neither Sequence nor SpecialToken")
		}
	}
	if texts != 1 {
		return fmt.Errorf("TemplateProcessing: single holds the text %d times", texts)
	}
	return nil
}
