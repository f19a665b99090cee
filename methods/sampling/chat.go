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

// Chat makes the header of the prompts a user's turn, and what follows it the beginning of the model's turn, by the chat template of
// the model's folder. The section is returned as it is where the folder has no template.
func Chat(g configs.Generate, folder string, tok *tokenizer.Tokenizer) (configs.Generate, error) {
	t, err := chat.Load(folder)
	if errors.Is(err, chat.ErrNone) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	text, err := t.Render([]chat.Message{{"role": "user", "content": g.TemplateHeader}}, true)
	if err == nil && !strings.Contains(text, g.TemplateHeader) {
		err = fmt.Errorf("the chat template of %s changes the user's turn, %q, to %q", folder, g.TemplateHeader, text)
	}
	if err != nil {
		return g, fault.Userf("generate.chat: %w; set it to false and write the turns into generate.template_header", err)
	}
	// Prompts begin with the tokens that begin every text, and a line break follows the header.
	prefix, _ := tok.Template()
	text = strings.TrimPrefix(text, tok.Decode(prefix, false))
	g.TemplateHeader = strings.TrimSuffix(text, "\n")
	return g, nil
}
