package textgen

import (
	"context"
	"slices"
	"strings"
	"time"

	"popri/internal/fault"
	"popri/lora"
	"popri/model/lm"
	"popri/model/tensor"
	"popri/model/tokenizer"
)

// LoadModel reads the model in dir for sampling, with weights and products of the type compute. An adapter's PEFT
// folder, if given, is merged into it. Errors are the user's.
func LoadModel(dir, adapter string, compute tensor.DType) (_ *lm.Model, err error) {
	defer func() { err = fault.User(err) }()
	o := lm.Options{Weights: compute, Compute: compute, Sampling: true}
	if adapter == "" {
		return lm.Load(dir, o)
	}
	m, err := lm.Load(dir, lm.Options{Compute: compute})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	a, err := lora.Load(adapter, m)
	if err != nil {
		return nil, err
	}
	defer a.Free()
	return a.Merge(m, o)
}

// Options say what to draw.
type Options struct {
	Samples          int      // of each prompt, 1 or more
	Stop             []string // texts that end a sample and are not part of it
	lm.SampleOptions          // its Stop is set from the texts above
}

// Sample is one sample of a prompt.
type Sample struct {
	Prompt int     `json:"prompt_index" parquet:"prompt_index"` // from 0, in the order of the file
	Sample int     `json:"sample_index" parquet:"sample_index"` // from 0
	Before string  `json:"prompt" parquet:"prompt"`
	Text   string  `json:"text" parquet:"text"`
	IDs    []int32 `json:"ids" parquet:"ids,list"` // as drawn, with a stop text's
	Finish string  `json:"finish_reason" parquet:"finish_reason"`
}

// Drawn has the samples of all prompts, in their order, and the time of drawing.
type Drawn struct {
	Samples []Sample
	Tokens  int
	Seconds float64 // of drawing alone
}

// Draw draws samples for every prompt. A prompt that the model cannot take is the user's error.
func Draw(ctx context.Context, m *lm.Model, tok *tokenizer.Tokenizer, prompts []Prompt, o Options) (Drawn, error) {
	ids := make([][]int32, len(prompts))
	for i, p := range prompts {
		if err := m.CheckTokens(p.IDs); err != nil {
			return Drawn{}, fault.Userf("%s: %w", p.Where, err)
		}
		if room := m.Config.Context - len(p.IDs); room < o.MaxNewTokens {
			return Drawn{}, fault.Userf("%s: the prompt has %d tokens, which leaves room for %d new ones in the "+
				"model's context of %d, and up to %d are asked for",
				p.Where, len(p.IDs), max(0, room), m.Config.Context, o.MaxNewTokens)
		}
		ids[i] = p.IDs
	}
	for _, stop := range o.Stop { // a special token is in no decoded text
		if id, ok := tok.ID(stop); ok && tok.IsSpecial(id) {
			o.StopTokens = append(slices.Clone(o.StopTokens), id)
		}
	}
	if len(o.Stop) > 0 {
		o.SampleOptions.Stop = func(prompt, ids []int32) bool {
			_, found := cutAt(tok.DecodeAfter(prompt, ids, true), o.Stop)
			return found
		}
	}
	begun := time.Now()
	drawn, err := m.Generate(ctx, ids, o.Samples, o.SampleOptions)
	if err != nil {
		return Drawn{}, err
	}
	out := Drawn{Seconds: time.Since(begun).Seconds()}
	for i, p := range prompts {
		for j, s := range drawn[i] {
			text, _ := cutAt(tok.DecodeAfter(p.IDs, s.IDs, true), o.Stop)
			if s.IDs == nil {
				s.IDs = []int32{}
			}
			out.Samples = append(out.Samples, Sample{i, j, p.Text, text, s.IDs, s.Finish})
			out.Tokens += len(s.IDs)
		}
	}
	return out, nil
}

// cutAt returns the part of a text before the first of the stop texts, and whether there is one.
func cutAt(text string, stops []string) (string, bool) {
	at, found := len(text), false
	for _, stop := range stops {
		if i := strings.Index(text, stop); i >= 0 {
			at, found = min(at, i), true
		}
	}
	return text[:at], found
}
