package clients

import (
	"cmp"
	"fmt"
	"slices"
)

// Subset returns the population with n of its train clients, drawn as an import draws them ([Shape].Clients): fewer are
// a subset of more. It has p's [Population.Tag], because what is spent on some of its clients is spent on p.
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

// subset draws n of the clients that are added: those with the smallest hashes of seed and ID. It holds at most twice
// as many.
type subset struct {
	n    int
	seed uint64
	held []hashed
}

type hashed struct {
	hash uint64
	id   string
}

func (s *subset) add(id string) {
	if s.held = append(s.held, hashed{hashOf("subset", s.seed, id), id}); len(s.held) >= 2*s.n {
		s.prune()
	}
}

func (s *subset) prune() {
	slices.SortFunc(s.held, func(a, b hashed) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.id, b.id))
	})
	s.held = s.held[:min(s.n, len(s.held))]
}

func (s *subset) chosen() map[string]bool {
	s.prune()
	ids := make(map[string]bool, len(s.held))
	for _, c := range s.held {
		ids[c.id] = true
	}
	return ids
}

// Since returns the population without texts that are dated before since or have no date, and without the clients that
// have no other texts. since is a date or the beginning of one, such as "1945". Texts are shared with p, and of a part of a
// population the part has the tag of the whole.
func (p *Population) Since(since string) *Population {
	out := &Population{Name: p.Name, Unit: p.Unit, whole: p.whole, all: p}
	for _, c := range p.Clients {
		kept := Client{ID: c.ID, Split: c.Split}
		for i, text := range c.Texts {
			if date := at(c.Date, c.Dates, i); date >= since && date != "" {
				kept.Texts, kept.Dates = append(kept.Texts, text), append(kept.Dates, date)
				kept.Labels = append(kept.Labels, c.LabelOf(i))
			}
		}
		if len(kept.Texts) == 0 {
			continue
		}
		kept.Date, kept.Dates = shared(kept.Dates)
		kept.Label, kept.Labels = shared(kept.Labels)
		out.Clients = append(out.Clients, kept)
	}
	return out
}
