package clients

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"popri/internal/numeric"
	"popri/internal/parquetio"
)

// LabelOf returns the label of text i, "" for none.
func (c Client) LabelOf(i int) string { return at(c.Label, c.Labels, i) }

// Labels returns the label of every text of the clients, in the order of [Texts]; "" for none.
func Labels(clients []Client) []string {
	var out []string
	for _, c := range clients {
		for i := range c.Texts {
			out = append(out, c.LabelOf(i))
		}
	}
	return out
}

// Unlabelled returns the first row without a label of a client file's splits, and the number of such rows. No row gives
// -1.
func Unlabelled(path string, splits ...Split) (first int64, n int, err error) {
	f, err := parquetio.Open(path)
	if err != nil {
		return -1, 0, fmt.Errorf("clients: %w", err)
	}
	defer f.Close()
	list, err := f.Strings("split")
	if err != nil {
		return -1, 0, fmt.Errorf("clients: %w", err)
	}
	labels, err := labelCells(f)
	if err != nil {
		return -1, 0, fmt.Errorf("clients: %w", err)
	}
	first = -1
	for i, split := range list {
		if labels[i].Value != "" || !slices.Contains(splits, Split(split.Value)) {
			continue
		}
		if n++; first < 0 {
			first = int64(i)
		}
	}
	return first, n, nil
}

// LabelCounts are the texts of one label, and the clients that have such a text.
type LabelCounts struct {
	Label string `json:"label"` // "" for the texts without one
	Labelled
	Splits map[Split]Labelled `json:"splits"`
}

// Labelled counts texts and clients.
type Labelled struct {
	Clients int `json:"clients"`
	Texts   int `json:"rows"`
}

// countLabels counts the labels of clients' texts, the most frequent first and the texts without one last; nil if no
// text has one.
func countLabels(list []Client) []LabelCounts {
	counts := map[string]*LabelCounts{}
	for _, c := range list {
		seen := map[string]bool{}
		for i := range c.Texts {
			label := c.LabelOf(i)
			n := counts[label]
			if n == nil {
				n = &LabelCounts{Label: label, Splits: map[Split]Labelled{}}
				counts[label] = n
			}
			split := n.Splits[c.Split]
			if n.Texts, split.Texts = n.Texts+1, split.Texts+1; !seen[label] {
				n.Clients, split.Clients = n.Clients+1, split.Clients+1
			}
			seen[label], n.Splits[c.Split] = true, split
		}
	}
	if none := counts[""]; len(counts) == 0 || len(counts) == 1 && none != nil {
		return nil
	}
	sorted := slices.SortedFunc(maps.Values(counts), func(a, b *LabelCounts) int {
		if (a.Label == "") != (b.Label == "") {
			return cmp.Compare(b.Label, a.Label)
		}
		return cmp.Or(cmp.Compare(b.Texts, a.Texts), cmp.Compare(a.Label, b.Label))
	})
	return numeric.Map(sorted, func(n *LabelCounts) LabelCounts { return *n })
}

// labelledRow is what the check of labels needs of a row.
type labelledRow struct {
	row   int64
	at    int // the index of the client
	label string
}

// checkLabels notes rows without a label where others have one, and labels of validation and test that no train text
// has. Train texts need none: if all of them lack one, that is how their clients keep it.
func (b *builder) checkLabels(rows []labelledRow) {
	type key struct {
		split Split
		label string
	}
	counts := map[key]int{}
	labelled := map[Split]bool{}
	for _, r := range rows {
		if r.label != "" {
			split := b.clients[r.at].Split
			counts[key{split, r.label}]++
			labelled[split] = true
		}
	}
	if len(labelled) == 0 {
		return
	}
	for _, r := range rows {
		split := b.clients[r.at].Split
		switch n := counts[key{split, r.label}]; {
		case r.label == "":
			if split != Train || labelled[Train] {
				b.warn(r.row, r.at, "label is missing", "label is missing, and other rows have one")
			}
		case split != Train && labelled[Train] && counts[key{Train, r.label}] == 0 && n > 0:
			counts[key{split, r.label}] = 0 // one row stands for all of them
			b.warn(r.row, r.at, "label is not in train",
				"label is in %s and in no train row (rows of %[1]s that have it: %d)", split, n)
		}
	}
	slices.SortStableFunc(b.problems, func(a, b Problem) int { return cmp.Compare(a.Row, b.Row) })
}
