package tokenizer

import (
	"strings"
	"unicode/utf8"

	"popri/internal/quote"
)

// wordPiece divides a word into the longest pieces of the vocabulary, from its start on (Schuster and Nakajima 2012, as
// BERT uses it). A word that cannot be divided, or is longer than longest characters, is unknown as a whole.
type wordPiece struct {
	first, further map[string]int32 // pieces that begin a word, and pieces that continue one, without their prefix
	maxFirst       int              // bytes of the longest of each
	maxFurther     int
	unknown        int32
	longest        int
	cache          wordCache
}

func newWordPiece(v *vocabulary, prefix, unknown string, longest int) (*wordPiece, error) {
	m := &wordPiece{first: map[string]int32{}, further: map[string]int32{}, longest: longest}
	var ok bool
	if m.unknown, ok = v.model[unknown]; !ok {
		return nil, quote.Errorf("model.unk_token %q is not in the vocabulary", unknown)
	}
	for piece, id := range v.model {
		m.first[piece] = id
		m.maxFirst = max(m.maxFirst, len(piece))
		if rest, ok := strings.CutPrefix(piece, prefix); ok {
			m.further[rest] = id
			m.maxFurther = max(m.maxFurther, len(rest))
		}
	}
	return m, nil
}

func (m *wordPiece) encode(ids []int32, text string, _ bool) []int32 {
	m.words(text, func(word string) { ids = m.encodeWord(ids, word) })
	return ids
}

func (m *wordPiece) encodeWord(ids []int32, word string) []int32 {
	if id, ok := m.first[word]; ok && len(word) <= m.longest {
		return append(ids, id)
	}
	return m.cache.encode(ids, word, m.pieces)
}

// pieces appends the pieces of a word.
func (m *wordPiece) pieces(ids []int32, word string) []int32 {
	if len(word) > m.longest && utf8.RuneCountInString(word) > m.longest {
		return append(ids, m.unknown)
	}
	start := len(ids)
	vocab, most := m.first, m.maxFirst
	for at := 0; at < len(word); {
		to := min(len(word), at+most)
		for ; to > at; to-- {
			if to < len(word) && !utf8.RuneStart(word[to]) {
				continue
			}
			if id, ok := vocab[word[at:to]]; ok {
				ids = append(ids, id)
				break
			}
		}
		if to == at {
			return append(ids[:start], m.unknown)
		}
		at = to
		vocab, most = m.further, m.maxFurther
	}
	return ids
}

func (m *wordPiece) words(text string, visit func(string)) {
	for {
		from, to := nextBertWord(text)
		if from == to {
			return
		}
		visit(text[from:to])
		text = text[to:]
	}
}

// wordPieceDecoder joins pieces: one that does not continue begins a word, with a space before it.
type wordPieceDecoder struct {
	prefix  string
	cleanup bool
}

// The reference removes the spaces before punctuation and contractions, in this order, within each piece.
var cleanups = [...][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
	{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}

func (d wordPieceDecoder) add(s *decoderState, piece string) string {
	if s.begun {
		if rest, ok := strings.CutPrefix(piece, d.prefix); ok {
			piece = rest
		} else {
			piece = " " + piece
		}
	}
	s.begun = true
	if d.cleanup {
		for _, c := range cleanups {
			piece = strings.ReplaceAll(piece, c[0], c[1])
		}
	}
	return piece
}

func (wordPieceDecoder) flush(*decoderState) string { return "" }
