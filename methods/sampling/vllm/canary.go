package vllm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"popri/internal/apiclient"
	"popri/internal/numeric"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
)

// Canary texts: the beginnings of the first prompts.
const (
	canaryPrompts = 8
	canaryTokens  = 256 // of each
)

// Limits of the proof.
const (
	// baseDistance is the largest mean difference of a token's log-probability under the base model, in nats. bfloat16
	// makes a few hundredths, another model ten times the limit.
	baseDistance = 0.2
	// effectShare is the least fraction of the adapter's effect here that the server must show, and its inverse the
	// largest.
	effectShare = 0.5
	// clear is the largest standard error of that share with which it is judged.
	clear = 0.2
	// visible is the least effect, in nats, of which a server with rounding errors must show anything at all.
	visible = 1e-3
)

// canary holds token log-probabilities of texts by this program.
type canary struct {
	texts       [][]int32
	base, tuned []float64 // of all texts' tokens but the first ones; tuned is nil without an adapter
}

// Proof says what a canary showed.
type Proof struct {
	Model string `json:"model"` // name on the server
	// Distance is the mean difference between server and popri of a token's log-probability under the base, in nats.
	Distance float64 `json:"base_distance"`
	// Effect is the adapter's effect here: the root mean square change of a token's log-probability, in nats.
	Effect float64 `json:"effect"`
	// Share is the part of the effect that the server shows, with its standard error.
	Share float64 `json:"share"`
	Error float64 `json:"share_error"`
}

func newCanary(m *lm.Model, adapter *lora.Adapter, prompts [][]int32) (*canary, error) {
	c := &canary{}
	var rows []lm.Row
	for _, p := range prompts {
		if p = p[:min(len(p), canaryTokens)]; len(p) > 1 && len(rows) < canaryPrompts {
			c.texts, rows = append(c.texts, p), append(rows, lm.Row{Tokens: p})
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("vllm: no prompt has two tokens to compare the server by")
	}
	score := func(adapter lm.Adapter) (out []float64, err error) {
		err = tensor.Run(func(s *tensor.Scope) error {
			for _, row := range rows {
				s.Do(func() {
					out = append(out, numeric.Convert[float64](m.Score(s, []lm.Row{row}, adapter, false).LogProbs)...)
				})
			}
			return nil
		})
		return out, err
	}
	var err error
	if c.base, err = score(nil); err == nil && adapter != nil {
		c.tuned, err = score(adapter)
	}
	return c, err
}

// prove asks the server for the canary's log-probabilities and compares them: the base's with the base here, and the
// change that the adapter makes with its change here.
func (c *canary) prove(ctx context.Context, server *apiclient.Client, base, name string) (Proof, error) {
	p := Proof{Model: name}
	theirs, err := c.ask(ctx, server, base)
	if err != nil {
		return p, err
	}
	n := float64(len(c.base))
	noise := 0.0
	for i, lp := range theirs {
		p.Distance += math.Abs(lp-c.base[i]) / n
		noise += (lp - c.base[i]) * (lp - c.base[i]) / n
	}
	if !(p.Distance <= baseDistance) {
		return p, fmt.Errorf("vllm: the server's model %s is not the run's model.path: the log-probabilities of %d "+
			"tokens differ by %.3g nats on average", base, len(c.base), p.Distance)
	}
	if c.tuned == nil {
		return p, nil
	}
	changed, err := c.ask(ctx, server, name)
	if err != nil {
		return p, err
	}
	product, square, moved := 0.0, 0.0, false
	for i, lp := range changed {
		d := c.tuned[i] - c.base[i]
		product += d * (lp - theirs[i])
		square += d * d
		moved = moved || lp != theirs[i]
	}
	p.Effect = math.Sqrt(square / n)
	if square == 0 { // a fresh adapter changes nothing
		return p, nil
	}
	// The share is the slope of a regression through the origin; rounding makes the noise of both answers.
	p.Share, p.Error = product/square, math.Sqrt(2*noise/square)
	if p.Effect >= visible && !moved || p.Error <= clear && !(p.Share >= effectShare && p.Share <= 1/effectShare) {
		return p, fmt.Errorf("vllm: the server took the adapter %s, but it does not have the effect that it has "+
			"here: it changes the log-probabilities of %d tokens by %.3g nats, of which the server shows %.0f %%", name,
			len(c.base), p.Effect, 100*p.Share)
	}
	return p, nil
}

// ask returns the log-probabilities of the canary's tokens under a model of the server.
func (c *canary) ask(ctx context.Context, server *apiclient.Client, model string) ([]float64, error) {
	var out []float64
	only := 0 // no other tokens than the text's
	for _, text := range c.texts {
		q := request{Model: model, Prompt: text, N: 1, MaxTokens: 1, Temperature: 1, TopP: 1, RepetitionPenalty: 1,
			ReturnTokens: true, PromptLogprobs: &only}
		var answer completion
		if err := server.Do(ctx, http.MethodPost, "/v1/completions", q, &answer); err != nil {
			return nil, err
		}
		if len(answer.Choices) != 1 || len(answer.Choices[0].PromptLogprobs) != len(text) {
			return nil, fmt.Errorf("vllm: %s: the answer has no prompt_logprobs for the %d tokens of the canary", model, len(text))
		}
		for i, id := range text[1:] {
			at := answer.Choices[0].PromptLogprobs[i+1][strconv.Itoa(int(id))]
			if at == nil || at.Logprob == nil || !(*at.Logprob <= 1e-3) {
				return nil, fmt.Errorf("vllm: %s: the answer has no log-probability of the canary's token %d", model, i+1)
			}
			out = append(out, *at.Logprob)
		}
	}
	return out, nil
}
