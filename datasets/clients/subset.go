package clients

import (
	"cmp"
	"fmt"
	"slices"
)

// Subset returns the population with n of its train clients, those with the smallest hashes of seed and ID: fewer are a
// subset of more. Its [Population.Tag] is that of p, because what is spent on some of its clients is spent on p.
func (p *Population) Subset(n int, seed uint64) (*Population, error) {
	train := p.Split(Train)
	if n > len(train) {
		return nil, fmt.Errorf("%d train clients are asked for, there are %d", n, len(train))
	}
	slices.SortFunc(train, func(a, b Client) int {
		return cmp.Or(cmp.Compare(hashOf("subset", seed, a.ID), hashOf("subset", seed, b.ID)), cmp.Compare(a.ID, b.ID))
	})
	left := map[string]bool{}
	for _, c := range train[n:] {
		left[c.ID] = true
	}
	out := &Population{Name: fmt.Sprintf("%s, %d of %d train clients", p.Name, n, len(train)), Unit: p.Unit, whole: p}
	out.Clients = slices.DeleteFunc(slices.Clone(p.Clients), func(c Client) bool { return c.Split == Train && left[c.ID] })
	return out, nil
}
