package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer turns text into ids and back. It does not change after it was made, and all methods may be called
// concurrently.
type Tokenizer struct {
	vocab        *vocabulary
	model        *byteLevel
	first, then  *matcher // added tokens that are not normalized, and those that are
	prefix, suff []int32  // the template's ids around a text
	defaults     specialNames
	source       []byte // the tokenizer.json
}

// Encoding is a text's ids and where they came from.
type Encoding struct {
	IDs []int32
	// ByteOffsets and CharOffsets hold, for every id, the half-open range of the original text in bytes and in Unicode
	// code points. An id that holds a part of a character has the range of the whole character, so neighbours can
	// overlap.
	ByteOffsets, CharOffsets [][2]int
}

// Encode returns the ids of text. Added tokens inside the text are recognised; the template's ids (a token for the
// beginning of a text, say) are not put around it, see [Tokenizer.Template].
func (t *Tokenizer) Encode(text string) []int32 {
	ids := make([]int32, 0, len(text)/3+4)
	t.cut(t.first, text, func(between string, _ int) {
		t.cut(t.then, between, func(plain string, _ int) {
			ids = t.model.encode(ids, plain)
		}, func(token AddedToken, _ int) { ids = append(ids, token.ID) })
	}, func(token AddedToken, _ int) { ids = append(ids, token.ID) })
	return ids
}

// EncodeWithOffsets returns what [Tokenizer.Encode] does together with the ranges of the text.
func (t *Tokenizer) EncodeWithOffsets(text string) Encoding {
	// Every id stands for the bytes that it decodes to, or for an added token's content, and together they are the text.
	ids := t.Encode(text)
	e := Encoding{IDs: ids, ByteOffsets: make([][2]int, len(ids)), CharOffsets: make([][2]int, len(ids))}
	// char is the index of the code point at [at, at+size) in the text.
	char, at, size := 0, 0, 0
	if len(text) > 0 {
		_, size = utf8.DecodeRuneInString(text)
	}
	moveTo := func(b int) {
		for at+size <= b {
			at += size
			char++
			_, size = utf8.DecodeRuneInString(text[at:])
		}
	}
	begin := 0
	for i, id := range ids {
		end := begin + t.vocab.width(id)
		moveTo(begin)
		e.ByteOffsets[i][0], e.CharOffsets[i][0] = at, char
		moveTo(end - 1)
		e.ByteOffsets[i][1], e.CharOffsets[i][1] = at+size, char+1
		begin = end
	}
	return e
}

// cut calls plain for the parts of text between added tokens and token for those, in order, with their offsets.
func (t *Tokenizer) cut(m *matcher, text string, plain func(string, int), token func(AddedToken, int)) {
	offset := 0
	for {
		start, found, ok := m.next(text[offset:])
		if !ok {
			break
		}
		if start > 0 {
			plain(text[offset:offset+start], offset)
		}
		token(found, offset+start)
		offset += start + len(found.Content)
	}
	if offset < len(text) {
		plain(text[offset:], offset)
	}
}

// Decode returns the text of ids. Bytes that are not UTF-8 become U+FFFD, one for every maximal ill-formed part; ids
// that the vocabulary does not have give nothing. With skipSpecial, special tokens give nothing either.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	raw := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		raw = append(raw, t.text(id, skipSpecial)...)
	}
	if utf8.Valid(raw) {
		return string(raw)
	}
	return string(replaceIllFormed(make([]byte, 0, len(raw)+16), raw))
}

func (t *Tokenizer) text(id int32, skipSpecial bool) string {
	if !t.vocab.has(id) || skipSpecial && t.vocab.special[id] {
		return ""
	}
	return t.vocab.bytes[id]
}

// VocabSize returns the highest id plus one: the rows that an embedding table needs.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.pieces) }

// ID returns the id of a token as the file writes it ("Ġthe", "<|endoftext|>").
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.vocab.added[token]; ok {
		return id, true
	}
	id, ok := t.vocab.model[token]
	return id, ok
}

// Token returns the token of an id as the file writes it, or "" for an id that the vocabulary does not have.
func (t *Tokenizer) Token(id int32) string {
	if !t.vocab.has(id) {
		return ""
	}
	return t.vocab.pieces[id]
}

// Bytes returns the text that an id stands for, which can be a part of a character; "" for an id that the vocabulary
// does not have.
func (t *Tokenizer) Bytes(id int32) string { return t.text(id, false) }

// IsSpecial reports whether id is a special token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.vocab.has(id) && t.vocab.special[id] }

// AddedTokens returns the tokens that are recognised in texts, ascending by id.
func (t *Tokenizer) AddedTokens() []AddedToken { return slices.Clone(t.vocab.list) }

// Template returns the ids that the model expects before and after a single text.
func (t *Tokenizer) Template() (prefix, suffix []int32) {
	return slices.Clone(t.prefix), slices.Clone(t.suff)
}

// EOS returns the id that ends a text: what tokenizer_config.json beside the tokenizer names, else the first of the
// customary names that is a special token.
func (t *Tokenizer) EOS() (int32, bool) {
	return t.named(t.defaults.EOS, "<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<|eot_id|>")
}

// BOS returns the id that begins a text, found as [Tokenizer.EOS] is.
func (t *Tokenizer) BOS() (int32, bool) {
	return t.named(t.defaults.BOS, "<|begin_of_text|>", "<s>", "<|endoftext|>")
}

// Pad returns the id that fills short rows, found as [Tokenizer.EOS] is.
func (t *Tokenizer) Pad() (int32, bool) {
	return t.named(t.defaults.Pad, "[PAD]", "<pad>", "<|pad|>")
}

func (t *Tokenizer) named(configured specialName, customary ...string) (int32, bool) {
	if configured != "" {
		return t.ID(string(configured))
	}
	for _, name := range customary {
		if id, ok := t.vocab.added[name]; ok && t.vocab.special[id] {
			return id, true
		}
	}
	return 0, false
}

// Decoder decodes ids one at a time, for text that is shown or searched while it is made. It holds back the bytes of
// a character until the character is whole, so that what Add and Flush return, joined, is what Decode returns.
type Decoder struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	pending     []byte
}

// NewDecoder returns a decoder at the start of a text.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{tokenizer: t, skipSpecial: skipSpecial}
}

// Add returns the text that id completes, "" where it only begins a character.
func (d *Decoder) Add(id int32) string {
	text := d.tokenizer.text(id, d.skipSpecial)
	if len(d.pending) == 0 && utf8.ValidString(text) {
		return text
	}
	d.pending = append(d.pending, text...)
	whole := len(d.pending) - unfinished(d.pending)
	out := string(replaceIllFormed(nil, d.pending[:whole]))
	d.pending = append(d.pending[:0], d.pending[whole:]...)
	return out
}

// Flush returns what is left at the end of the text: U+FFFD for a character that was begun and never finished.
func (d *Decoder) Flush() string {
	out := string(replaceIllFormed(nil, d.pending))
	d.pending = d.pending[:0]
	return out
}

// unfinished returns the length of the end of b that a following byte could make into one character.
func unfinished(b []byte) int {
	for n := 1; n <= min(3, len(b)); n++ {
		tail := b[len(b)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if _, _, more := leadByte(tail[0]); more >= n && illFormed(tail) == n {
			return n
		}
		return 0
	}
	return 0
}

// width returns how many bytes of text an id took.
func (v *vocabulary) width(id int32) int {
	if _, added := v.added[v.pieces[id]]; added {
		return len(v.pieces[id])
	}
	return len(v.bytes[id])
}

// splitWords calls visit for the words of a text that merges never cross; added tokens are left out.
func (t *Tokenizer) splitWords(text string, visit func(string)) {
	t.cut(t.first, text, func(between string, _ int) {
		t.cut(t.then, between, func(plain string, _ int) {
			for len(plain) > 0 {
				n := t.model.split(plain)
				visit(plain[:n])
				plain = plain[n:]
			}
		}, func(AddedToken, int) {})
	}, func(AddedToken, int) {})
}

// Words returns the words that the split cuts a text into before merging, joined the text without its added tokens.
func (t *Tokenizer) Words(text string) []string {
	var words []string
	t.splitWords(text, func(word string) { words = append(words, strings.Clone(word)) })
	return words
}
