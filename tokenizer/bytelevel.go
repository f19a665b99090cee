package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Byte-level vocabularies write every byte as one printable character: those that are printable in Latin-1 as
// themselves, the other 68 as U+0100 onwards. So a space is Ġ and a line feed Ċ.
var (
	runeOfByte [256]rune
	byteOfRune = map[rune]byte{}
)

func init() {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r && r <= 0xff) {
			r = next
			next++
		}
		runeOfByte[b] = r
		byteOfRune[r] = byte(b)
	}
}

// pieceOfBytes writes bytes as a byte-level vocabulary does.
func pieceOfBytes(b string) string {
	var out strings.Builder
	for i := range len(b) {
		out.WriteRune(runeOfByte[b[i]])
	}
	return out.String()
}

// bytesOfPiece is the inverse. A piece with any other character stands for its own UTF-8 text, as the reference has it.
func bytesOfPiece(piece string) string {
	out := make([]byte, 0, len(piece))
	for _, r := range piece {
		b, ok := byteOfRune[r]
		if !ok {
			return piece
		}
		out = append(out, b)
	}
	return string(out)
}

// byteLevel is the byte-level BPE model.
type byteLevel struct {
	split        splitter
	byteID       [256]int32
	merges       map[uint64]merge
	ignoreMerges map[string]int32 // the vocabulary by bytes where whole words are looked up before merging, else nil
	cache        wordCache
}

// merge says what two neighbours become and how early.
type merge struct {
	rank int32
	id   int32
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// newByteLevel checks that the vocabulary can spell every text, that merges only make pieces that it has, and that none of
// them is missing.
func newByteLevel(v *vocabulary, mergePairs [][2]string, ignoreMerges bool, split splitter) (*byteLevel, error) {
	m := &byteLevel{split: split, merges: make(map[uint64]merge, len(mergePairs))}
	made := make(map[int32]bool, len(mergePairs))
	var missing []string
	for b := range m.byteID {
		id, ok := v.model[string(runeOfByte[b])]
		if !ok {
			missing = append(missing, fmt.Sprintf("%#02x (%q)", b, runeOfByte[b]))
		}
		m.byteID[b] = id
	}
	if len(missing) > 0 {
		shown := strings.Join(missing[:min(len(missing), 5)], ", ")
		return nil, fmt.Errorf("model.vocab lacks %d of the 256 single bytes (%s): texts with them could not be spelled", len(missing), shown)
	}
	for rank, pair := range mergePairs {
		var ids [2]int32
		for i, piece := range pair {
			id, ok := v.model[piece]
			if !ok {
				return nil, fmt.Errorf("model.merges line %d, %q %q: %q is not in the vocabulary", rank+1, pair[0], pair[1], piece)
			}
			ids[i] = id
		}
		id, ok := v.model[pair[0]+pair[1]]
		if !ok {
			return nil, fmt.Errorf("model.merges line %d, %q %q: the result %q is not in the vocabulary", rank+1, pair[0], pair[1], pair[0]+pair[1])
		}
		// Lengths must add up, or offsets would not: a piece outside the byte alphabet stands for other bytes.
		if len(v.bytes[id]) != len(v.bytes[ids[0]])+len(v.bytes[ids[1]]) {
			return nil, fmt.Errorf("model.merges line %d, %q %q: a character stands for no byte", rank+1, pair[0], pair[1])
		}
		key := pairKey(ids[0], ids[1])
		if first, twice := m.merges[key]; twice {
			return nil, fmt.Errorf("model.merges line %d, %q %q: stands in line %d already", rank+1, pair[0], pair[1], first.rank+1)
		}
		m.merges[key] = merge{rank: int32(rank), id: id}
		made[id] = true
	}
	if !ignoreMerges {
		if err := v.checkMade(made); err != nil {
			return nil, err
		}
	} else {
		m.ignoreMerges = make(map[string]int32, len(v.model))
		for piece, id := range v.model {
			if b := bytesOfPiece(piece); pieceOfBytes(b) == piece {
				m.ignoreMerges[b] = id
			}
		}
	}
	return m, nil
}

// checkMade looks for a merge that was lost: a piece that no merge makes although two others spell it. Some vocabularies
// hold further pieces that no text gives; those cannot be spelled so.
func (v *vocabulary) checkMade(made map[int32]bool) error {
	for id, piece := range v.pieces {
		known, ok := v.model[piece]
		if !ok || known != int32(id) || made[known] {
			continue
		}
		if _, ok := v.added[piece]; ok {
			continue
		}
		for at := range piece {
			_, left := v.model[piece[:at]]
			_, right := v.model[piece[at:]]
			if left && right {
				return fmt.Errorf("model.merges: no line makes %q (id %d), which %q %q would: a merge is missing", piece, id, piece[:at], piece[at:])
			}
		}
	}
	return nil
}

func (m *byteLevel) encode(ids []int32, text string) []int32 {
	for len(text) > 0 {
		n := m.split(text)
		ids = m.encodeWord(ids, text[:n])
		text = text[n:]
	}
	return ids
}

func (m *byteLevel) encodeWord(ids []int32, word string) []int32 {
	if len(word) == 1 {
		return append(ids, m.byteID[word[0]])
	}
	if id, ok := m.ignoreMerges[word]; ok {
		return append(ids, id)
	}
	if cached, ok := m.cache.get(word); ok {
		return append(ids, cached...)
	}
	start := len(ids)
	for i := range len(word) {
		ids = append(ids, m.byteID[word[i]])
	}
	var n int
	if len(word) <= scanLimit {
		n = m.mergeByScan(ids[start:])
	} else {
		n = m.mergeByHeap(ids[start:])
	}
	ids = ids[:start+n]
	m.cache.put(word, ids[start:])
	return ids
}

// scanLimit is the length up to which looking through all neighbours for every merge is faster than a heap.
const scanLimit = 48

// mergeByScan merges in place, always the neighbours of the lowest rank and of those the leftmost, and returns how
// many symbols are left.
func (m *byteLevel) mergeByScan(symbols []int32) int {
	var found [scanLimit]merge // of symbols i and i+1; rank -1 for none
	look := func(i int) {
		var ok bool
		if found[i], ok = m.merges[pairKey(symbols[i], symbols[i+1])]; !ok {
			found[i].rank = -1
		}
	}
	n := len(symbols)
	for i := range n - 1 {
		look(i)
	}
	for {
		best := -1
		for i := range n - 1 {
			if found[i].rank >= 0 && (best < 0 || found[i].rank < found[best].rank) {
				best = i
			}
		}
		if best < 0 {
			return n
		}
		symbols[best] = found[best].id
		copy(symbols[best+1:n], symbols[best+2:n])
		copy(found[best:n-2], found[best+1:n-1])
		n--
		if best > 0 {
			look(best - 1)
		}
		if best < n-1 {
			look(best)
		}
	}
}

// candidate is a merge that was possible when it was put on the heap.
type candidate struct {
	rank, position int32
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.position < b.position
}

// mergeByHeap does the same in O(n log n): symbols in a linked list, possible merges on a heap, stale ones dropped as
// they come up.
func (m *byteLevel) mergeByHeap(symbols []int32) int {
	n := len(symbols)
	previous, next := make([]int32, n), make([]int32, n)
	heap := make([]candidate, 0, n)
	for i := range n {
		previous[i], next[i] = int32(i-1), int32(i+1)
		if i+1 < n {
			if found, ok := m.merges[pairKey(symbols[i], symbols[i+1])]; ok {
				heap = append(heap, candidate{found.rank, int32(i)})
			}
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i, candidate.before)
	}
	push := func(i int32) {
		if found, ok := m.merges[pairKey(symbols[i], symbols[next[i]])]; ok {
			heap = append(heap, candidate{found.rank, i})
			siftUp(heap, candidate.before)
		}
	}
	for len(heap) > 0 {
		top := heap[0]
		heap[0] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		siftDown(heap, 0, candidate.before)
		i := top.position
		if symbols[i] < 0 || int(next[i]) >= n {
			continue
		}
		right := next[i]
		found, ok := m.merges[pairKey(symbols[i], symbols[right])]
		if !ok || found.rank != top.rank {
			continue
		}
		symbols[i] = found.id
		symbols[right] = -1
		next[i] = next[right]
		if int(next[i]) < n {
			previous[next[i]] = i
			push(i)
		}
		if previous[i] >= 0 {
			push(previous[i])
		}
	}
	left := 0
	for _, id := range symbols {
		if id >= 0 {
			symbols[left] = id
			left++
		}
	}
	return left
}

// siftUp restores a binary heap after its last element was appended.
func siftUp[T any](heap []T, before func(a, b T) bool) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(heap[i], heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

// siftDown restores a binary heap after element i was replaced.
func siftDown[T any](heap []T, i int, before func(a, b T) bool) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && before(heap[child+1], heap[child]) {
			child++
		}
		if !before(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// replaceIllFormed appends b with every maximal ill-formed subpart replaced by U+FFFD.
func replaceIllFormed(out []byte, b []byte) []byte {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size <= 1 {
			out = append(out, "\uFFFD"...)
			b = b[illFormed(b):]
			continue
		}
		out = append(out, b[:size]...)
		b = b[size:]
	}
	return out
}

// illFormed returns the length of the maximal ill-formed subpart at the start of b, which does not start with a whole
// character: the longest prefix that some character starts with, at least one byte (Unicode 16, 3.9, table 3-7).
func illFormed(b []byte) int {
	low, high, more := leadByte(b[0])
	if more == 0 {
		return 1
	}
	n := 1
	for n < len(b) && n <= more && low <= b[n] && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}

// leadByte returns the range of the second byte after a lead byte and how many bytes follow it in all; 0 where no
// longer character starts so.
func leadByte(lead byte) (low, high byte, more int) {
	switch {
	case lead < 0xc2:
		return 0, 0, 0
	case lead < 0xe0:
		return 0x80, 0xbf, 1
	case lead == 0xe0:
		return 0xa0, 0xbf, 2
	case lead == 0xed:
		return 0x80, 0x9f, 2
	case lead < 0xf0:
		return 0x80, 0xbf, 2
	case lead == 0xf0:
		return 0x90, 0xbf, 3
	case lead < 0xf4:
		return 0x80, 0xbf, 3
	case lead == 0xf4:
		return 0x80, 0x8f, 3
	}
	return 0, 0, 0
}
