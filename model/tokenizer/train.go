package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"popri/internal/numeric"
)

// TrainOptions says what [TrainBPE] makes.
type TrainOptions struct {
	// VocabSize is the number of tokens in all: the 256 bytes, the special tokens, and as many merges as fit between.
	// It must be at least 256 plus the special tokens; there is no default.
	VocabSize int
	// SpecialTokens get the last ids, in this order. They are cut out of the texts and never learnt. The list may be
	// empty.
	SpecialTokens []string
}

// TrainBPE learns byte-level BPE with the split of GPT-2 from texts: the most frequent pair of neighbours becomes a
// token, repeatedly (Sennrich et al., arXiv 1508.07909). Ties go to the pair whose bytes come first, so that the same
// texts, in any order, give the same tokenizer.
func TrainBPE(texts iter.Seq[string], opt TrainOptions) (*Tokenizer, error) {
	if smallest := 256 + len(opt.SpecialTokens); opt.VocabSize < smallest || opt.VocabSize > maxID {
		return nil, fmt.Errorf("tokenizer: vocabulary of %d: allowed are %d (256 bytes and %d special tokens) to %d",
			opt.VocabSize, smallest, len(opt.SpecialTokens), maxID)
	}
	// Without merges the tokenizer only splits, which is the first step.
	blank, err := assemble(nil, nil, opt.SpecialTokens)
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	count := func(word string) {
		if _, known := counts[word]; !known {
			word = strings.Clone(word) // a key must not hold the whole text
		}
		counts[word]++
	}
	for text := range texts { // added tokens are left out
		blank.parts(text, func(part string, _ bool) { blank.model.(*byteLevel).words(part, count) }, func(AddedToken) {})
	}
	pieces, pairs := learn(counts, opt.VocabSize-len(opt.SpecialTokens))
	return assemble(pieces, pairs, opt.SpecialTokens)
}

// pairState is the trainer's record of a pair of neighbours.
type pairState struct {
	count int64
	words []int32 // where it was found; some entries may be outdated or repeated
}

// ranked is a pair on the heap with its count at that time; the count may have fallen since.
type ranked struct {
	key   uint64
	count int64
}

// learner is the state of byte-pair encoding while it learns.
type learner struct {
	text      []string // of every id, as bytes
	ids       map[string]int32
	symbols   [][]int32 // of each word
	frequency []int64   // of each word
	pairs     map[uint64]*pairState
	heap      []ranked // the most frequent pair first
}

// learn returns the pieces beyond the single bytes in the order of their ids, and the merges, until the vocabulary has
// size pieces or no pair is left. Two merges can make the same piece, which gets one id.
func learn(counts map[string]int64, size int) (pieces []string, merges [][2]string) {
	l := newLearner(counts, size)
	done := map[uint64]bool{}
	for len(l.text) < size && len(l.heap) > 0 {
		top := l.heap[0]
		l.heap[0] = l.heap[len(l.heap)-1]
		l.heap = l.heap[:len(l.heap)-1]
		siftDown(l.heap, 0, l.before)
		state := l.pairs[top.key]
		switch {
		case state == nil:
			continue
		case state.count != top.count:
			if state.count < top.count && state.count > 0 {
				l.push(top.key)
			}
			continue
		}
		// A pair can occur again after its merge, when another merge spells one of its halves. In encoding, the
		// existing merge applies to it; so it does here, without a second line.
		if !done[top.key] {
			done[top.key] = true
			merges = append(merges, [2]string{l.text[int32(top.key>>32)], l.text[int32(uint32(top.key))]})
		}
		l.merge(top.key)
	}
	return l.text[256:], merges
}

// newLearner counts the pairs of the words' bytes.
func newLearner(counts map[string]int64, size int) *learner {
	words := slices.Sorted(maps.Keys(counts))
	l := &learner{text: make([]string, 256, max(size, 256)), ids: map[string]int32{},
		symbols: make([][]int32, len(words)), frequency: make([]int64, len(words)), pairs: map[uint64]*pairState{}}
	var rankOfByte [256]int32
	for id, b := range byteOrder() {
		rankOfByte[b] = int32(id)
		l.text[id] = string([]byte{b})
		l.ids[l.text[id]] = int32(id)
	}
	for w, word := range words {
		l.symbols[w] = numeric.Map([]byte(word), func(b byte) int32 { return rankOfByte[b] })
		l.frequency[w] = counts[word]
		l.count(int32(w), 1, func(_ uint64, state *pairState) { state.found(int32(w)) })
	}
	for _, key := range slices.Sorted(maps.Keys(l.pairs)) {
		l.push(key)
	}
	return l
}

// count adds sign times a word's frequency to the counts of its pairs, and calls visit, if not nil, for each.
func (l *learner) count(word int32, sign int64, visit func(key uint64, state *pairState)) {
	s := l.symbols[word]
	for i := range len(s) - 1 {
		key := pairKey(s[i], s[i+1])
		state := l.pairs[key]
		if state == nil {
			state = &pairState{}
			l.pairs[key] = state
		}
		state.count += sign * l.frequency[word]
		if visit != nil {
			visit(key, state)
		}
	}
}

// found adds a word to the pair's words.
func (p *pairState) found(word int32) {
	if n := len(p.words); n == 0 || p.words[n-1] != word {
		p.words = append(p.words, word)
	}
}

// before orders the heap. Ties go to the pair whose bytes come first.
func (l *learner) before(a, b ranked) bool {
	if a.count != b.count {
		return a.count > b.count
	}
	aLeft, aRight, bLeft, bRight := int32(a.key>>32), int32(uint32(a.key)), int32(b.key>>32), int32(uint32(b.key))
	return cmp.Or(cmp.Compare(l.text[aLeft], l.text[bLeft]), cmp.Compare(l.text[aRight], l.text[bRight])) < 0
}

func (l *learner) push(key uint64) {
	l.heap = append(l.heap, ranked{key, l.pairs[key].count})
	siftUp(l.heap, l.before)
}

// merge replaces a pair by one symbol in the words where it was found.
func (l *learner) merge(key uint64) {
	left, right := int32(key>>32), int32(uint32(key))
	merged := l.text[left] + l.text[right]
	id, known := l.ids[merged]
	if !known {
		id = int32(len(l.text))
		l.ids[merged] = id
		l.text = append(l.text, merged)
	}
	affected := l.pairs[key].words
	l.pairs[key].words = nil
	slices.Sort(affected)
	created := map[uint64]bool{}
	for _, w := range slices.Compact(affected) {
		l.count(w, -1, nil)
		l.symbols[w] = replacePair(l.symbols[w], left, right, id)
		l.count(w, 1, func(key uint64, state *pairState) {
			if int32(key>>32) == id || int32(uint32(key)) == id {
				created[key] = true
				state.found(w)
			}
		})
	}
	delete(l.pairs, key)
	for _, key := range slices.Sorted(maps.Keys(created)) {
		l.push(key)
	}
}

// replacePair replaces every left right by id, from the left, and returns the shortened slice.
func replacePair(symbols []int32, left, right, id int32) []int32 {
	n := 0
	for i := 0; i < len(symbols); i++ {
		if symbols[i] == left && i+1 < len(symbols) && symbols[i+1] == right {
			symbols[n] = id
			i++
		} else {
			symbols[n] = symbols[i]
		}
		n++
	}
	return symbols[:n]
}

// byteOrder returns the bytes in the order in which byte-level vocabularies list them: by the character that stands
// for each.
func byteOrder() []byte {
	order := numeric.Tabulate(256, func(b int) byte { return byte(b) })
	slices.SortFunc(order, func(a, b byte) int { return cmp.Compare(runeOfByte[a], runeOfByte[b]) })
	return order
}

// assemble makes a tokenizer of the single bytes, the pieces and the special tokens, in that order of ids.
func assemble(pieces []string, pairs [][2]string, specials []string) (*Tokenizer, error) {
	singles := numeric.Map(byteOrder(), func(b byte) string { return string(runeOfByte[b]) })
	d := Description{Split: SplitGPT2, Pieces: slices.Concat(singles, numeric.Map(pieces, pieceOfBytes))}
	for _, special := range specials {
		d.Added = append(d.Added, AddedToken{ID: int32(len(d.Pieces)), Content: special, Special: true})
		d.Pieces = append(d.Pieces, special)
	}
	for _, pair := range pairs {
		d.Merges = append(d.Merges, [2]string{pieceOfBytes(pair[0]), pieceOfBytes(pair[1])})
	}
	return Build(d)
}

// marshal is json.Marshal without the escaping of <, > and &, which occur in the names of most special tokens.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}
