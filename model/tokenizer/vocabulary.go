package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"popri/internal/quote"
)

// maxID bounds token ids, which index tables: the largest published vocabularies are below 300 000.
const maxID = 1 << 24

// AddedToken is a token that is recognised in the text before anything else.
type AddedToken struct {
	ID      int32  `json:"id"`
	Content string `json:"content"`
	// SingleWord tokens are whole words of the text alone, which is not supported.
	SingleWord bool `json:"single_word"`
	// LStrip and RStrip make white space before and after the token a part of it.
	LStrip bool `json:"lstrip"`
	RStrip bool `json:"rstrip"`
	// Normalized tokens are searched after the others, in the rest of the text.
	Normalized bool `json:"normalized"`
	// Special tokens are left out if decoding skips them.
	Special bool `json:"special"`
}

// vocabulary has the pieces by id and by text.
type vocabulary struct {
	model   map[string]int32 // the model's pieces as spelled in the file
	added   map[string]int32
	pieces  []string // by id; "" where there is none, see known
	bytes   []string // the text of each
	shown   []string // the decoder's input for each: the piece, except for normalized added tokens
	known   []bool
	special []bool
}

func newVocabulary(model map[string]int32, added []AddedToken, bytesOf func(string) string) (*vocabulary, error) {
	size := int32(0)
	check := func(piece string, id int32) error {
		if id < 0 || id >= maxID {
			return quote.Errorf("token %q has id %d, allowed are 0 to %d", piece, id, maxID-1)
		}
		size = max(size, id+1)
		return nil
	}
	for piece, id := range model {
		if err := check(piece, id); err != nil {
			return nil, err
		}
	}
	for _, a := range added {
		if err := check(a.Content, a.ID); err != nil {
			return nil, err
		}
	}
	v := &vocabulary{
		model: model, added: make(map[string]int32, len(added)),
		pieces: make([]string, size), bytes: make([]string, size), known: make([]bool, size), special: make([]bool,
			size),
	}
	for piece, id := range model {
		if v.known[id] {
			first, second := min(piece, v.pieces[id]), max(piece, v.pieces[id])
			return nil, quote.Errorf("model.vocab: id %d is given to both %q and %q", id, first, second)
		}
		v.known[id], v.pieces[id], v.bytes[id] = true, piece, bytesOf(piece)
	}
	for _, a := range added {
		if a.Content == "" {
			return nil, fmt.Errorf("added_tokens: the token of id %d is empty", a.ID)
		}
		if _, twice := v.added[a.Content]; twice {
			return nil, quote.Errorf("added_tokens: %q stands twice", a.Content)
		}
		if id, ok := model[a.Content]; ok && id != a.ID {
			return nil, quote.Errorf("added_tokens: %q has id %d, but %d in model.vocab", a.Content, a.ID, id)
		}
		if v.known[a.ID] && v.pieces[a.ID] != a.Content {
			return nil, quote.Errorf("added_tokens: id %d is given to both %q and %q", a.ID, v.pieces[a.ID], a.Content)
		}
		v.added[a.Content] = a.ID
		v.known[a.ID], v.pieces[a.ID], v.bytes[a.ID], v.special[a.ID] = true, a.Content, bytesOf(a.Content), a.Special
	}
	v.shown = slices.Clone(v.pieces)
	return v, nil
}

func (v *vocabulary) has(id int32) bool { return id >= 0 && int(id) < len(v.known) && v.known[id] }

// matcher finds added tokens in text: the leftmost one, and the longest of those that start there.
type matcher struct {
	byFirst [256][]match // longest first
	firsts  []byte
}

// match is an added token and the text by which it is found.
type match struct {
	text  string
	token AddedToken
}

func newMatcher(tokens []match) *matcher {
	m := &matcher{}
	for _, t := range tokens {
		first := t.text[0]
		if m.byFirst[first] == nil {
			m.firsts = append(m.firsts, first)
		}
		m.byFirst[first] = append(m.byFirst[first], t)
	}
	for _, first := range m.firsts {
		slices.SortStableFunc(m.byFirst[first], func(a, b match) int { return len(b.text) - len(a.text) })
	}
	return m
}

// next returns the first token in text and where it starts; ok is false if there is none.
func (m *matcher) next(text string) (start int, found match, ok bool) {
	if len(m.firsts) == 0 {
		return 0, match{}, false
	}
	for at := 0; at < len(text); at++ {
		if len(m.firsts) == 1 {
			skip := strings.IndexByte(text[at:], m.firsts[0])
			if skip < 0 {
				return 0, match{}, false
			}
			at += skip
		}
		for _, t := range m.byFirst[text[at]] {
			if strings.HasPrefix(text[at:], t.text) {
				return at, t, true
			}
		}
	}
	return 0, match{}, false
}
