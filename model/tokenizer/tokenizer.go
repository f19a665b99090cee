package tokenizer

import (
	"slices"
	"strings"
	"unicode"
)

// Tokenizer turns text into ids and back. It never changes after its creation, and all methods may be called
// concurrently.
type Tokenizer struct {
	vocab        *vocabulary
	normalizer   normalizer // or nil
	model        model
	joiner       joiner            // nil joins bytes
	first, then  *matcher          // added tokens that are not normalized, and those that are
	prefix, suff []int32           // the template's ids around a text
	special      map[string]string // by their names in the files next to it
	source       []byte            // the tokenizer.json
}

// A model turns a part of a text without added tokens into ids. start says that the part begins the text.
type model interface {
	encode(ids []int32, text string, start bool) []int32
}

// Encode returns the ids of text. Added tokens inside the text are recognised; the template's ids (such as a token for
// the beginning of a text) are not added, see [Tokenizer.Template].
func (t *Tokenizer) Encode(text string) []int32 {
	ids := make([]int32, 0, len(text)/3+4)
	t.parts(text, func(plain string, start bool) { ids = t.model.encode(ids, plain, start) },
		func(token AddedToken) { ids = append(ids, token.ID) })
	return ids
}

// parts calls plain for the normalized parts of text between added tokens, and token for the added tokens, in order.
// start says that plain begins the text.
func (t *Tokenizer) parts(text string, plain func(part string, start bool), token func(AddedToken)) {
	t.first.cut(text, func(between string, begins bool) {
		if t.normalizer != nil {
			var kept bool
			between, kept = normalized(t.normalizer, between)
			begins = begins && kept
		}
		t.then.cut(between, func(part string, first bool) { plain(part, begins && first) }, token)
	}, token)
}

// cut calls plain for the parts of text between added tokens, and token for the added tokens, in order. start says that
// a part begins the text.
func (m *matcher) cut(text string, plain func(part string, start bool), token func(AddedToken)) {
	offset := 0
	for {
		start, found, ok := m.next(text[offset:])
		if !ok {
			break
		}
		before, end := text[offset:offset+start], offset+start+len(found.text)
		if found.token.LStrip {
			before = strings.TrimRightFunc(before, unicode.IsSpace)
		}
		if found.token.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if before != "" {
			plain(before, offset == 0)
		}
		token(found.token)
		offset = end
	}
	if offset < len(text) {
		plain(text[offset:], offset == 0)
	}
}

// Decode returns the text of ids. Bytes that are not UTF-8 become U+FFFD, one for every maximal ill-formed part; ids
// outside the vocabulary give nothing. With skipSpecial, special tokens give nothing either.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	return t.decode(ids, skipSpecial, false)
}

// DecodeAfter returns the text of ids that follow others: what a sample adds to its prompt. It differs from Decode for
// vocabularies that write the first piece differently from later ones.
func (t *Tokenizer) DecodeAfter(before, ids []int32, skipSpecial bool) string {
	begun := slices.ContainsFunc(before, func(id int32) bool {
		return t.vocab.has(id) && !(skipSpecial && t.vocab.special[id])
	})
	return t.decode(ids, skipSpecial, begun)
}

// VocabSize returns the highest id plus one: the number of rows of an embedding table.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.pieces) }

// ID returns the id of a token as spelled in the file ("Ġthe", "<|endoftext|>").
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.vocab.added[token]; ok {
		return id, true
	}
	id, ok := t.vocab.model[token]
	return id, ok
}

// Token returns the token of an id as spelled in the file, or "" for an id outside the vocabulary.
func (t *Tokenizer) Token(id int32) string {
	if !t.vocab.has(id) {
		return ""
	}
	return t.vocab.pieces[id]
}

// IsSpecial reports whether id is a special token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.vocab.has(id) && t.vocab.special[id] }

// Template returns the ids that the model expects before and after a single text.
func (t *Tokenizer) Template() (prefix, suffix []int32) {
	return slices.Clone(t.prefix), slices.Clone(t.suff)
}

// EOS returns the id that ends a text: what the files next to the tokenizer name ([SpecialTokens]), else the first of the
// customary names that is a special token.
func (t *Tokenizer) EOS() (int32, bool) {
	return t.named(t.special["eos_token"], "<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<|eot_id|>", "[SEP]")
}

// BOS returns the id that begins a text, found as [Tokenizer.EOS] is.
func (t *Tokenizer) BOS() (int32, bool) {
	return t.named(t.special["bos_token"], "<|begin_of_text|>", "<s>", "<|endoftext|>", "[CLS]")
}

func (t *Tokenizer) named(configured string, customary ...string) (int32, bool) {
	if id, ok := t.ID(configured); ok && configured != "" {
		return id, true
	}
	for _, name := range customary {
		if id, ok := t.vocab.added[name]; ok && t.vocab.special[id] {
			return id, true
		}
	}
	return 0, false
}
