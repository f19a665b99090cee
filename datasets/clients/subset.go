package clients

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// Subset returns the population with n of its train clients, drawn as an import draws them ([Shape].Clients): fewer are a
// subset of more. Its [Population.Tag] is that of p, because what is spent on some of its clients is spent on p.
func (p *Population) Subset(n int, seed uint64) (*Population, error) {
	train := p.Split(Train)
	if n > len(train) {
		return nil, fmt.Errorf("%d train clients are asked for, there are %d", n, len(train))
	}
	s := subset{n: n, seed: seed}
	for _, c := range train {
		s.add(c.ID)
	}
	chosen := s.chosen()
	out := &Population{Name: fmt.Sprintf("%s, %d of %d train clients", p.Name, n, len(train)), Unit: p.Unit, whole: p}
	out.Clients = slices.DeleteFunc(slices.Clone(p.Clients), func(c Client) bool { return c.Split == Train && !chosen[c.ID] })
	return out, nil
}

// subset draws n of the clients that are added: those with the smallest hashes of seed and ID. It holds no more of them.
type subset struct {
	n    int
	seed uint64
	heap hashHeap
}

func (s *subset) add(id string) {
	heap.Push(&s.heap, hashed{hashOf("subset", s.seed, id), id})
	if len(s.heap) > s.n {
		heap.Pop(&s.heap)
	}
}

func (s *subset) chosen() map[string]bool {
	ids := make(map[string]bool, len(s.heap))
	for _, c := range s.heap {
		ids[c.id] = true
	}
	return ids
}

type hashed struct {
	hash uint64
	id   string
}

// hashHeap has the largest hash first.
type hashHeap []hashed

func (h hashHeap) Len() int { return len(h) }
func (h hashHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].hash, h[i].hash), cmp.Compare(h[j].id, h[i].id)) < 0
}
func (h hashHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *hashHeap) Push(x any)   { *h = append(*h, x.(hashed)) }
func (h *hashHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
