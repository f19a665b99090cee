package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"popri/internal/quote"
)

// unigram divides a word into the pieces whose scores have the largest sum, as the vocabularies of T5 and XLM-R do
// (Kudo, arXiv 1804.10959): scores are log-probabilities, and Viterbi's algorithm finds the best path.
//
//	best(end) = max over pieces that end there: best(where the piece begins) + its score
//
// A character that no piece is has the lowest score less 10; neighbouring ones are one unknown piece.
type unigram struct {
	cutters []cutter
	trie    *trie
	scores  []float64
	ids     map[string]int32

	unknown      int32
	unknownScore float64
	// bytes are the ids of <0x00> to <0xFF>, which replace what is unknown; -1 where there is none. nil: they do not.
	bytes *[256]int32
	cache wordCache
}

// unknownPenalty is the reference's.
const unknownPenalty = 10

func newUnigram(v *vocabulary, scores []float64, unknown *int, byteFallback bool, cutters []cutter) (*unigram, error) {
	switch {
	case unknown == nil:
		return nil, errors.New("model.unk_id is missing: a character outside of the vocabulary would have no id")
	case *unknown < 0 || *unknown >= len(scores):
		return nil, fmt.Errorf("model.unk_id is %d, model.vocab has %d pieces", *unknown, len(scores))
	}
	m := &unigram{cutters: cutters, trie: newTrie(v.model), scores: scores, ids: v.model, unknown: int32(*unknown)}
	lowest := math.Inf(1)
	for _, s := range scores {
		lowest = min(lowest, s)
	}
	m.unknownScore = lowest - unknownPenalty
	if byteFallback {
		m.bytes = new([256]int32)
		for b := range m.bytes {
			m.bytes[b] = -1
			if id, ok := v.model[fmt.Sprintf("<0x%02X>", b)]; ok {
				m.bytes[b] = id
			}
		}
	}
	return m, nil
}

func (m *unigram) encode(ids []int32, text string, start bool) []int32 {
	cutAll(m.cutters, piece{text: text, start: start}, func(p piece) { ids = m.cache.encode(ids, p.text, m.pieces) })
	return ids
}

// step is the best path to a position in a word: its score and its last piece.
type pathStep struct {
	score float64
	id    int32
	from  int // -1: no path ends here
}

// pieces appends the pieces of a word.
func (m *unigram) pieces(ids []int32, word string) []int32 {
	var short [longestCached + 1]pathStep
	best := short[:]
	if len(word) > longestCached {
		best = make([]pathStep, len(word)+1)
	}
	best = best[:len(word)+1]
	for i := range best {
		best[i].from = -1
	}
	offer := func(from, to int, id int32, score float64) {
		if s := &best[to]; s.from < 0 || score > s.score {
			*s = pathStep{score, id, from}
		}
	}
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		before, single := best[at].score, false
		m.trie.prefixes(word[at:], func(length int, id int32) {
			offer(at, at+length, id, m.scores[id]+before)
			single = single || length == size
		})
		if !single {
			offer(at, at+size, m.unknown, m.unknownScore+before)
		}
		at += size
	}
	// The path is read from its end, and reversed by reusing the field of each step for the one that follows it.
	end := len(word)
	for at, next := end, -1; at > 0; {
		from := best[at].from
		best[at].from = next
		at, next = from, at
		if from == 0 {
			best[0].from = next
		}
	}
	for at := 0; at < end; {
		to := best[at].from
		id := best[to].id
		if id == m.unknown {
			for to < end && best[best[to].from].id == m.unknown {
				to = best[to].from
			}
			ids = m.unknownPieces(ids, word[at:to])
		} else {
			ids = append(ids, id)
		}
		at = to
	}
	return ids
}

// unknownPieces appends what stands for a text that no piece is: the bytes, if the vocabulary has them all. Several
// unknown characters together may be a piece.
func (m *unigram) unknownPieces(ids []int32, text string) []int32 {
	if id, ok := m.ids[text]; ok {
		return append(ids, id)
	}
	if m.bytes == nil {
		return append(ids, m.unknown)
	}
	start := len(ids)
	for i := range len(text) {
		id := m.bytes[text[i]]
		if id < 0 {
			return append(ids[:start], m.unknown)
		}
		ids = append(ids, id)
	}
	return ids
}

// unigramVocab is the list of pieces with their scores; a piece's index is its id.
type unigramVocab struct {
	ids    map[string]int32
	scores []float64
}

func (v *unigramVocab) add(piece string, score float64) error {
	if first, twice := v.ids[piece]; twice {
		return quote.Errorf("model.vocab: the ids %d and %d have the same piece %q", first, len(v.scores), piece)
	}
	v.ids[piece] = int32(len(v.scores))
	v.scores = append(v.scores, score)
	return nil
}
