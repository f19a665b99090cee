package clients

import (
	"fmt"
	"strings"
)

// Overlap counts, for each split, the public texts that are also texts of its clients.
type Overlap struct {
	Public int // texts that were compared
	Counts map[Split]int
}

// Overlap looks for public texts of at least leastWords words that are texts of clients, apart from white space and the
// case of letters. The counts are private: they depend on single texts.
func (p *Population) Overlap(public []string, leastWords int) Overlap {
	owner := map[string]Split{}
	for _, c := range p.Clients {
		for _, t := range c.Texts {
			if n := normalized(t); n.words >= leastWords && owner[n.text] != Train { // train counts first
				owner[n.text] = c.Split
			}
		}
	}
	o := Overlap{len(public), map[Split]int{}}
	for _, t := range public {
		if split, ok := owner[normalized(t).text]; ok {
			o.Counts[split]++
		}
	}
	return o
}

type normalizedText struct {
	text  string
	words int
}

func normalized(t string) normalizedText {
	words := strings.Fields(strings.ToLower(t))
	return normalizedText{strings.Join(words, " "), len(words)}
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
	return fmt.Sprintf("%d of its %d texts are texts of clients (%s)", o.Total(), o.Public, strings.Join(parts, ", "))
}
