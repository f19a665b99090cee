package clients

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"popri/internal/numeric"
)

// Split says what a client's texts may be used for.
type Split string

// The splits. A client is in exactly one.
const (
	Train      Split = "train"      // takes part in training rounds, protected by the noise
	Validation Split = "validation" // choices between settings
	Test       Split = "test"       // final measurements
)

// Splits lists all splits in the order train, validation, test.
var Splits = []Split{Train, Validation, Test}

// Valid reports whether s is one of [Splits].
func (s Split) Valid() bool { return s == Train || s == Validation || s == Test }

// Client is one participant, the unit of privacy.
type Client struct {
	ID    string
	Split Split
	Date  string   // YYYY-MM-DD; empty if there is none or the texts' dates differ
	Label string   // empty if there is none or the texts' labels differ
	Texts []string // in the client's own order, each non-blank; at least one

	Dates  []string // one for each text if they differ, else nil
	Labels []string // one for each text if they differ, else nil
}

// Population is a set of clients.
type Population struct {
	Name    string
	Unit    string // a sentence that says who or what a client is, for reports
	Clients []Client
	whole   *Population // that this one is a part of; nil if it is none
	all     *Population // with the texts that [Population.Since] left out; nil if there are none
}

// Split returns the clients of one split, in order. The clients share their texts with p.
func (p *Population) Split(s Split) []Client {
	var out []Client
	for _, c := range p.Clients {
		if c.Split == s {
			out = append(out, c)
		}
	}
	return out
}

// Counts are the sizes of a part of a population.
type Counts struct {
	Clients int `json:"clients"`
	Texts   int `json:"rows"`
	Words   int `json:"words"`
}

// Count counts clients, their texts and the words of the texts, separated by white space.
func Count(clients []Client) Counts {
	n := Counts{Clients: len(clients)}
	for _, c := range clients {
		n.Texts += len(c.Texts)
		for _, t := range c.Texts {
			n.Words += len(strings.Fields(t))
		}
	}
	return n
}

// Texts returns the texts of all clients, in order.
func Texts(clients []Client) []string {
	return slices.Concat(numeric.Map(clients, func(c Client) []string { return c.Texts })...)
}

// Sorted returns the clients in the order of their IDs.
func Sorted(list []Client) []Client {
	return slices.SortedStableFunc(slices.Values(list), func(a, b Client) int { return strings.Compare(a.ID, b.ID) })
}

// Tag identifies the population's content for the owner of the key, and reveals nothing without the key: hex
// HMAC-SHA-256 over every client's fields and texts, in the order of the IDs. splits chooses the clients; none means
// all. Of a part of a population, it is the tag of the whole.
func (p *Population) Tag(key []byte, splits ...Split) string {
	if p.whole != nil {
		return p.whole.Tag(key, splits...)
	}
	return p.TagOfPart(key, splits...)
}

// TagOfPart is [Population.Tag] of a part itself.
func (p *Population) TagOfPart(key []byte, splits ...Split) string {
	h := hmac.New(sha256.New, key)
	field := func(s string) { fmt.Fprintf(h, "%d %s\n", len(s), s) }
	for _, c := range Sorted(p.Clients) {
		if len(splits) > 0 && !slices.Contains(splits, c.Split) {
			continue
		}
		for _, s := range []string{c.ID, string(c.Split), c.Date, c.Label} {
			field(s)
		}
		for _, list := range [][]string{c.Texts, c.Dates, c.Labels} {
			fmt.Fprintf(h, "%d:\n", len(list))
			for _, s := range list {
				field(s)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Sketch is a sample of a split's clients by which the owner of the key finds out whether two splits share clients: the
// least n of their clients' hex HMAC-SHA-256, over the texts. A part of a population has the sketch of the whole, also
// without its old texts.
func (p *Population) Sketch(key []byte, split Split, n int) []string {
	if of := cmp.Or(p.whole, p.all); of != nil {
		return of.Sketch(key, split, n)
	}
	var out []string
	for _, c := range p.Split(split) {
		h := hmac.New(sha256.New, key)
		for _, t := range c.Texts {
			fmt.Fprintf(h, "%d %s\n", len(t), t)
		}
		out = append(out, hex.EncodeToString(h.Sum(nil)[:8]))
	}
	slices.Sort(out)
	return out[:min(n, len(out))]
}

func (c Counts) String() string {
	return fmt.Sprintf("%d clients, %d texts, %d words", c.Clients, c.Texts, c.Words)
}
