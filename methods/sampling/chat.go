package sampling

import (
	"errors"
	"fmt"
	"strings"

	"popri/configs"
	"popri/internal/fault"
	"popri/model/chat"
	"popri/model/tokenizer"
)

// Chat makes the header of the prompts a user's turn, and what follows it the beginning of the model's turn, by the
// chat template of the model's folder. The section is returned as it is where the folder has no template.
func Chat(g configs.Generate, folder string, tok *tokenizer.Tokenizer) (configs.Generate, error) {
	t, err := chat.Load(folder)
	if errors.Is(err, chat.ErrNone) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	text, err := userTurn(t, folder, tok, g.TemplateHeader)
	g.TemplateHeader = strings.TrimSuffix(text, "\n") // a line break follows the header
	return g, err
}

// Turns returns what makes a user's turn of an instruction, up to the beginning of the model's turn, by the chat
// template of the model's folder; nil where the folder has none.
func Turns(folder string, tok *tokenizer.Tokenizer) (func(instruction string) (string, error), error) {
	t, err := chat.Load(folder)
	if errors.Is(err, chat.ErrNone) {
		return nil, nil
	}
	return func(instruction string) (string, error) { return userTurn(t, folder, tok, instruction) }, err
}

// userTurn is a user's turn and the beginning of the model's, without the tokens that begin every text.
func userTurn(t *chat.Template, folder string, tok *tokenizer.Tokenizer, content string) (string, error) {
	text, err := t.Render([]chat.Message{chat.Turn("user", content)}, true, nil)
	if err == nil && !strings.Contains(text, content) {
		err = fmt.Errorf("the chat template of %s changes the user's turn, %q, to %q", folder, content, text)
	}
	if err != nil {
		return "", fault.Userf("generate.chat: %w; set it to false and write the turns into generate.template_header", err)
	}
	prefix, _ := tok.Template()
	return strings.TrimPrefix(text, tok.Decode(prefix, false)), nil
}
