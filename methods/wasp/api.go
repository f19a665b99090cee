package wasp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"popri/internal/apiclient"
	"popri/internal/rng"
	"popri/model/lm"
	"popri/model/tokenizer"
)

// keyVariable is the environment variable with the servers' key.
const keyVariable = "OPENAI_API_KEY"

// atOnce is the number of requests that a server has at a time.
const atOnce = 8

// api is a model at a server that takes and gives text: completions as OpenAI's, or chats.
type api struct {
	client *apiclient.Client
	model  string
	chat   bool
}

// newAPI makes the api of "https://host/#model".
func newAPI(address string, chat bool) *api {
	url, model, _ := strings.Cut(address, "#")
	return &api{apiclient.New(url, "wasp.generators", os.Getenv(keyVariable)), model, chat}
}

// complete asks for what follows a prompt.
func (a *api) complete(ctx context.Context, prompt string, seed uint64, o lm.SampleOptions) (text, finish string,
	err error) {
	body := map[string]any{"model": a.model, "max_tokens": o.MaxNewTokens, "temperature": o.Temperature,
		"seed": int64(seed >> 12)} // servers read numbers as float64
	if o.TopP > 0 {
		body["top_p"] = o.TopP
	}
	path := "/v1/completions"
	if a.chat {
		path = "/v1/chat/completions"
		// A chat answers from its own beginning, which may have the mark that the prompt ends with.
		body["messages"] = []map[string]string{{"role": "user",
			"content": strings.TrimSpace(strings.TrimSuffix(prompt, mark))}}
	} else {
		body["prompt"], body["stop"] = prompt, []string{mark, "\n"}
	}
	var answer struct {
		Choices []struct {
			Text    string `json:"text"`
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := a.client.Do(ctx, http.MethodPost, path, body, &answer); err != nil {
		return "", "", err
	}
	if len(answer.Choices) == 0 {
		return "", "", errors.New(a.client.URL + " gives no answer")
	}
	c := answer.Choices[0]
	if a.chat {
		c.Text = strings.TrimPrefix(strings.TrimSpace(c.Message.Content), mark)
	}
	if c.Finish != "length" {
		c.Finish = "stop"
	}
	return strings.ToValidUTF8(c.Text, "\uFFFD"), c.Finish, nil
}

// mark opens and closes the texts of prompts, see [sampling.Marked].
const mark = `"`

// serving draws samples at a server: a [sampling.Sampler] whose prompts and samples are texts in the tokens of a
// tokenizer here.
type serving struct {
	*api
	tokenizer *tokenizer.Tokenizer
}

// Generate implements sampling.Sampler. What is drawn depends on the server; finished parts are stored.
func (s serving) Generate(ctx context.Context, prompts [][]int32, samples int, o lm.SampleOptions) ([][]lm.Sample, error) {
	if samples != 1 {
		return nil, fmt.Errorf("wasp: %d samples of a prompt, want 1", samples)
	}
	out := make([][]lm.Sample, len(prompts))
	group, ctx := errgroup.WithContext(ctx) // after one failure nothing more is sent, which would be paid for
	group.SetLimit(atOnce)
	var done atomic.Int64
	for i, p := range prompts {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			text, finish, err := s.complete(ctx, s.tokenizer.Decode(p, true), rng.Seed(o.Seed, fmt.Sprint(i)), o)
			if err != nil {
				return err
			}
			ids := s.tokenizer.Encode(text)
			if len(ids) > o.MaxNewTokens { // the server's word is not taken for it
				ids, finish = ids[:o.MaxNewTokens], "length"
			}
			out[i] = []lm.Sample{{IDs: ids, Finish: finish}}
			if n := done.Add(1); o.Progress != nil {
				o.Progress(int(n), len(prompts))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
