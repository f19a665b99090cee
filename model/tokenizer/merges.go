package tokenizer

import (
	"popri/internal/quote"
)

// merge is the result of merging two neighbours, and its rank.
type merge struct {
	rank int32
	id   int32
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// merges are the pairs of neighbours that become one piece.
type merges map[uint64]merge

// newMerges checks that each merge makes a piece of the vocabulary with as many bytes as its two parts, and that no
// pair occurs twice. made says which pieces some merge makes.
func newMerges(v *vocabulary, pairs [][2]string) (m merges, made map[int32]bool, err error) {
	m, made = make(merges, len(pairs)), make(map[int32]bool, len(pairs))
	for rank, pair := range pairs {
		var ids [2]int32
		for i, piece := range pair {
			id, ok := v.model[piece]
			if !ok {
				return nil, nil, quote.Errorf("model.merges line %d, %q %q: %q is not in the vocabulary", rank+1,
					pair[0], pair[1], piece)
			}
			ids[i] = id
		}
		id, ok := v.model[pair[0]+pair[1]]
		if !ok {
			return nil, nil, quote.Errorf("model.merges line %d, %q %q: the result %q is not in the vocabulary",
				rank+1, pair[0], pair[1], pair[0]+pair[1])
		}
		// Lengths must add up for offsets to be right: a piece outside the byte alphabet stands for other bytes.
		if len(v.bytes[id]) != len(v.bytes[ids[0]])+len(v.bytes[ids[1]]) {
			return nil, nil, quote.Errorf("model.merges line %d, %q %q: a character stands for no byte", rank+1, pair[0], pair[1])
		}
		key := pairKey(ids[0], ids[1])
		if first, twice := m[key]; twice {
			return nil, nil, quote.Errorf("model.merges line %d, %q %q: stands in line %d already", rank+1,
				pair[0], pair[1], first.rank+1)
		}
		m[key] = merge{rank: int32(rank), id: id}
		made[id] = true
	}
	return m, made, nil
}

// checkMade looks for a missing merge: a piece that no merge makes although two others spell it. Some vocabularies have
// further pieces that no text gives; those cannot be spelled this way.
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
				return quote.Errorf("model.merges: no line makes %q (id %d), which %q %q would: a merge is "+
					"missing", piece, id, piece[:at], piece[at:])
			}
		}
	}
	return nil
}

// apply merges in place and returns how many symbols are left.
func (m merges) apply(symbols []int32) int {
	if len(symbols) <= scanLimit {
		return m.byScan(symbols)
	}
	return m.byHeap(symbols)
}

// scanLimit is the length up to which scanning all neighbours for every merge is faster than a heap.
const scanLimit = 48

// byScan merges in place, always the neighbours of the lowest rank and among those the leftmost, and returns the number
// of symbols that are left.
func (m merges) byScan(symbols []int32) int {
	var found [scanLimit]merge // of symbols i and i+1; rank -1 for none
	look := func(i int) {
		var ok bool
		if found[i], ok = m[pairKey(symbols[i], symbols[i+1])]; !ok {
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

// byHeap does the same in O(n log n): symbols in a linked list, possible merges on a heap; stale ones are dropped when
// they are taken from it.
func (m merges) byHeap(symbols []int32) int {
	n := len(symbols)
	previous, next := make([]int32, n), make([]int32, n)
	heap := make([]candidate, 0, n)
	for i := range n {
		previous[i], next[i] = int32(i-1), int32(i+1)
		if i+1 < n {
			if found, ok := m[pairKey(symbols[i], symbols[i+1])]; ok {
				heap = append(heap, candidate{found.rank, int32(i)})
			}
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i, candidate.before)
	}
	push := func(i int32) {
		if found, ok := m[pairKey(symbols[i], symbols[next[i]])]; ok {
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
		found, ok := m[pairKey(symbols[i], symbols[right])]
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
