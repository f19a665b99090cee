package judging

import (
	"context"
	"errors"
	"net/http"
	"os"

	"popri/eval/judge"
	"popri/internal/apiclient"
)

// KeyVariable is the environment variable with the key of the server that is asked.
const KeyVariable = "OPENAI_API_KEY"

// answerTokens is room for a letter and few words before it.
const answerTokens = 16

// asker asks a model at a server with OpenAI's API of chats.
func asker(url, model string) judge.Asker {
	server := apiclient.New(url, "judge", os.Getenv(KeyVariable))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	return func(ctx context.Context, question string) (string, error) {
		body := map[string]any{"model": model, "messages": []message{{"user", question}}, "temperature": 0,
			"max_tokens": answerTokens}
		var answer struct {
			Choices []struct {
				Message message `json:"message"`
			} `json:"choices"`
		}
		if err := server.Do(ctx, http.MethodPost, "/v1/chat/completions", body, &answer); err != nil {
			return "", err
		}
		if len(answer.Choices) == 0 {
			return "", errors.New(url + " gives no answer")
		}
		return answer.Choices[0].Message.Content, nil
	}
}
