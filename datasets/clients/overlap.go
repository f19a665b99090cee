package clients

import (
	"fmt"
	"slices"
	"strings"

	"popri/datasets/minhash"
)

// Overlap counts, for each split, the public texts that are also texts of its clients.
type Overlap struct {
	Public int // texts that were compared
	Counts map[Split]int
}

// Overlap looks for public texts of at least leastWords words that are nearly texts of clients: package minhash says
// how near. Case, punctuation and white space do not count. The counts are private: they depend on single texts.
func (p *Population) Overlap(public []string, leastWords int) Overlap {
	type owned struct {
		text  string
		split Split
	}
	var private []owned
	for _, c := range p.Clients {
		for _, t := range c.Texts {
			if len(minhash.Words(t)) >= leastWords {
				private = append(private, owned{t, c.Split})
			}
		}
	}
	long := slices.DeleteFunc(slices.Clone(public), func(t string) bool { return len(minhash.Words(t)) < leastWords })
	found := map[int]Split{} // by index in long
	note := func(at int, split Split) {
		if found[at] != Train { // train counts first
			found[at] = split
		}
	}
	index := minhash.NewIndex() // of the fewer texts: it takes 2 to 3 kB for each
	if len(long) <= len(private) {
		for _, t := range long {
			index.Add(minhash.Sign(t), 0)
		}
		for _, t := range private {
			for _, at := range index.Near(minhash.Sign(t.text)) {
				note(int(at), t.split)
			}
		}
	} else {
		for _, t := range private {
			index.Add(minhash.Sign(t.text), 0)
		}
		for i, t := range long {
			for _, at := range index.Near(minhash.Sign(t)) {
				note(i, private[at].split)
			}
		}
	}
	o := Overlap{len(public), map[Split]int{}}
	for _, split := range found {
		o.Counts[split]++
	}
	return o
}

// Total is the number of public texts that are a client's.
func (o Overlap) Total() int {
	n := 0
	for _, k := range o.Counts {
		n += k
	}
	return n
}

func (o Overlap) String() string {
	var parts []string
	for _, s := range Splits {
		if n := o.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s clients", n, s))
		}
	}
	return fmt.Sprintf("%d of its %d texts are texts of clients, or nearly (%s)", o.Total(), o.Public,
		strings.Join(parts, ", "))
}
