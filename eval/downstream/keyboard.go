package downstream

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"popri/eval/keyboard"
	"popri/model/lm"
	"popri/model/tensor"
)

// Keyboard suggests words by a small model. Several goroutines may use it, one at a time computes.
type Keyboard struct {
	*keyboard.Keyboard
	encoder Encoder
	model   Tested
	mutex   sync.Mutex
	context string    // for which logits are known
	logits  []float32 // nil before the first use
}

// OpenKeyboard loads the small model in dir, whose rows have the given form, and cuts what was typed to its last length
// tokens. Free releases the model.
func OpenKeyboard(dir, rows string, length int, compute tensor.DType) (*Keyboard, error) {
	e, err := OpenEncoder(dir, rows, length)
	if err != nil {
		return nil, err
	}
	m, err := OpenTested(dir, lm.Options{Weights: tensor.Float32, Compute: compute})
	if err != nil {
		return nil, fmt.Errorf("downstream: %w", err)
	}
	return &Keyboard{Keyboard: keyboard.New(e.Tokenizer), encoder: e, model: m}, nil
}

// Free releases the model.
func (k *Keyboard) Free() { k.model.Free() }

// Suggest returns the likeliest words for what follows the last space of a text, of which the rest is typed.
func (k *Keyboard) Suggest(text string) (words []string, err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	at := strings.LastIndexByte(text, ' ') + 1
	context, typed := strings.TrimRight(text[:at], " "), text[at:]
	if k.logits == nil || context != k.context {
		err = tensor.Run(func(s *tensor.Scope) error {
			k.logits = k.next(s, context)
			return nil
		})
		if k.context = context; err != nil {
			k.logits = nil
			return nil, err
		}
	}
	return k.Keyboard.Suggest(k.logits, typed), nil
}

// next returns the logits of the token after a text.
func (k *Keyboard) next(s *tensor.Scope, context string) (logits []float32) {
	whole := k.encoder
	whole.Length = 1 << 30
	ids, _ := whole.unended(context)
	ids = slices.Concat(ids[max(0, len(ids)-k.encoder.Length+1):], []int32{k.encoder.End})
	k.model.distributions(s, []lm.Row{{Tokens: ids}}, func(_, token int, of []float32) {
		if token == len(ids)-1 {
			logits = slices.Clone(of)
		}
	})
	return logits
}
