package vllm

import (
	"errors"
	"fmt"
	"slices"

	"popri/internal/quote"
	"popri/model/lm"
)

// request is the body of a completion. Everything that draws is explicit, because a server takes what is left out from
// the model's generation_config.json.
type request struct {
	Model             string   `json:"model"`
	Prompt            []int32  `json:"prompt"`
	N                 int      `json:"n"`
	MaxTokens         int      `json:"max_tokens"`
	MinTokens         int      `json:"min_tokens"`
	Temperature       float64  `json:"temperature"`
	TopP              float64  `json:"top_p"`
	TopK              int      `json:"top_k"`
	MinP              float64  `json:"min_p"`
	RepetitionPenalty float64  `json:"repetition_penalty"`
	PresencePenalty   float64  `json:"presence_penalty"`
	FrequencyPenalty  float64  `json:"frequency_penalty"`
	Seed              int64    `json:"seed"`
	StopTokens        []int32  `json:"stop_token_ids"`
	Stop              []string `json:"stop"`
	IgnoreEOS         bool     `json:"ignore_eos"` // the model's end of text is among StopTokens
	SkipSpecial       bool     `json:"skip_special_tokens"`
	ReturnTokens      bool     `json:"return_token_ids"`
	PromptLogprobs    *int     `json:"prompt_logprobs,omitempty"`
}

// completion is the answer.
type completion struct {
	Choices []choice `json:"choices"`
}

type choice struct {
	Index          *int                    `json:"index"`
	Tokens         *[]int64                `json:"token_ids"`
	PromptTokens   []int64                 `json:"prompt_token_ids"`
	Finish         string                  `json:"finish_reason"`
	StopReason     any                     `json:"stop_reason"` // token, text or null
	PromptLogprobs []map[string]*logprobAt `json:"prompt_logprobs"`
}

type logprobAt struct {
	Logprob *float64 `json:"logprob"`
}

// errAborted marks an answer that the server gave up; the request is worth repeating.
var errAborted = errors.New("the server gave the request up")

// samples checks an answer and returns its samples in order. vocab is the number of tokens, stop ends a sample.
func (c completion) samples(q request, vocab int, o lm.SampleOptions, stop map[int32]bool) ([]lm.Sample, error) {
	if len(c.Choices) != q.N {
		return nil, fmt.Errorf("the answer has %d choices, %d were asked for", len(c.Choices), q.N)
	}
	out := make([]lm.Sample, q.N)
	seen := make([]bool, q.N)
	for _, x := range c.Choices {
		if x.Index == nil || *x.Index < 0 || *x.Index >= q.N || seen[*x.Index] {
			return nil, fmt.Errorf("the answer's choices are not numbered 0 to %d once each", q.N-1)
		}
		seen[*x.Index] = true
		if x.PromptTokens != nil && !slices.EqualFunc(x.PromptTokens, q.Prompt,
			func(a int64, b int32) bool { return a == int64(b) }) {
			return nil, fmt.Errorf("the server read a prompt of %d tokens that is not the one sent, which has %d",
				len(x.PromptTokens), len(q.Prompt))
		}
		s, err := x.sample(q, vocab, o, stop)
		if err != nil {
			return nil, fmt.Errorf("choice %d: %w", *x.Index, err)
		}
		out[*x.Index] = s
	}
	return out, nil
}

// sample checks a choice and cuts it where a sample that is drawn here would have ended.
func (x choice) sample(q request, vocab int, o lm.SampleOptions, stop map[int32]bool) (lm.Sample, error) {
	if x.Tokens == nil {
		return lm.Sample{}, errors.New("it has no token_ids: the server must be a vLLM that knows return_token_ids")
	}
	if x.Finish == "abort" || x.Finish == "error" {
		return lm.Sample{}, errAborted
	}
	if x.Finish != "stop" && x.Finish != "length" {
		return lm.Sample{}, quote.Errorf("finish_reason is %q, want stop or length", x.Finish)
	}
	if n := len(*x.Tokens); n > q.MaxTokens {
		return lm.Sample{}, fmt.Errorf("it has %d tokens, at most %d were asked for", n, q.MaxTokens)
	}
	var ids []int32
	for i, id := range *x.Tokens {
		if id < 0 || id >= int64(vocab) {
			return lm.Sample{}, fmt.Errorf("token %d is %d, the vocabulary has %d", i, id, vocab)
		}
		if stop[int32(id)] {
			if i < q.MinTokens {
				return lm.Sample{}, fmt.Errorf("it ends after %d tokens, at least %d were asked for", i, q.MinTokens)
			}
			return lm.Sample{IDs: ids, Finish: "stop"}, nil
		}
		ids = append(ids, int32(id))
		if o.Stop != nil && o.Stop(q.Prompt, ids) {
			return lm.Sample{IDs: ids, Finish: "stop"}, nil
		}
	}
	switch {
	case len(ids) == q.MaxTokens:
		return lm.Sample{IDs: ids, Finish: "length"}, nil
	case x.Finish == "length":
		return lm.Sample{}, fmt.Errorf("it was cut after %d tokens, %d were asked for: the server's longest sequence "+
			"is shorter than the model's", len(ids), q.MaxTokens)
	case x.stoppedAsAsked(q) && len(ids) >= q.MinTokens: // the server left the stop token out
		return lm.Sample{IDs: ids, Finish: "stop"}, nil
	}
	return lm.Sample{}, fmt.Errorf("it ends after %d tokens for no reason that was asked for", len(ids))
}

// stoppedAsAsked reports whether the server names one of the request's stops as its reason.
func (x choice) stoppedAsAsked(q request) bool {
	switch reason := x.StopReason.(type) {
	case float64:
		return slices.Contains(q.StopTokens, int32(reason))
	case string:
		return slices.Contains(q.Stop, reason)
	}
	return false
}
